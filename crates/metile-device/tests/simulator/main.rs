//! The simulator on programs made by hand: what they compute, and that every planted fault is found at its line.

mod faults;
mod grids;
mod matrices;
mod support;
mod values;
