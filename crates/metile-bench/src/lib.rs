//! Measuring whose claims can be checked: studies are declared, gated before they are timed, and leave
//! reports with raw samples; charts and tables are derived from reports alone.

pub mod baseline;
pub mod charts;
pub mod check;
pub mod diagram;
pub mod environment;
pub mod estimate;
pub mod fingerprint;
pub mod gate;
pub mod json;
pub mod kernel_studies;
pub mod model_studies;
pub mod order;
pub mod published;
pub mod random;
pub mod schema;
pub mod site;
pub mod study;
pub mod tables;
