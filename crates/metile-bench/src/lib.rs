//! Measuring whose claims can be checked: studies are declared, gated before they are timed, and leave
//! reports with raw samples; charts and tables are derived from reports alone.

pub mod baseline;
