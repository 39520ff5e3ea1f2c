//! GPUs: from Tile IR to Device IR, and from there to source.

pub mod namer;
