//! Studies of layers and kernels.

mod a_a;
mod device_arm;
pub mod harness;
mod oracles;
pub mod precision_probe;

use crate::schema::{Boundary, Clock, Metric};
use crate::study::Entry;
use device_arm::broken;
#[cfg(test)]
pub(crate) use device_arm::described;

/// The studies of this module.
pub fn entries() -> Vec<Entry> {
    vec![a_a::ENTRY]
}

/// A boundary by the host's clock.
fn wall(boundary: &str) -> (Clock, String) {
    (Clock::Wall, boundary.to_owned())
}

/// The metric `time`.
fn time_metric((clock, boundary): (Clock, String)) -> Metric {
    Metric { name: "time".to_owned(), unit: "s".to_owned(), clock, boundary }
}

/// The boundary of prepared launches.
fn device_boundary() -> Boundary {
    Boundary {
        starts: "before the first launch of a sample is submitted".to_owned(),
        ends: "when the last launch of the sample is done and the host knows it".to_owned(),
        includes: vec!["submission".to_owned(), "synchronization".to_owned()],
        excludes: [
            "compilation",
            "allocation",
            "drawing and copying inputs",
            "overwriting outputs with NaN",
            "reading and comparing outputs",
        ]
        .map(str::to_owned)
        .into(),
    }
}
