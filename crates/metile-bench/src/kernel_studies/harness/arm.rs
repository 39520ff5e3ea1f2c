//! What a kernel study needs of an arm.

use crate::study::Refusal;

/// One way to compute a case, over inputs and outputs that it keeps where it computes.
pub trait KernelArm {
    /// Timed series, each a metric of the study: `time`, and perhaps others.
    fn series(&self) -> &[&'static str];

    /// Copies fresh inputs to where the arm reads them, in the order in which the case has them.
    ///
    /// # Errors
    /// If that is not possible.
    fn set_inputs(&mut self, inputs: &[Vec<f32>]) -> Result<(), Refusal>;

    /// SHA-256 of all inputs as they lie there now: fresh ones, weights and constants. `None` where there is no
    /// way to read them back; what an arm does to its inputs then shows in its outputs alone.
    ///
    /// # Errors
    /// If they can't be read.
    fn inputs_sha256(&mut self) -> Result<Option<String>, Refusal>;

    /// Overwrites all outputs with NaN, and scratch that is kept between launches.
    ///
    /// # Errors
    /// If that is not possible.
    fn poison(&mut self) -> Result<(), Refusal>;

    /// Computes so many times, as the series says, and returns when all is done. An arm in another process gives
    /// the seconds on its own clock, which are no more than those on the harness's.
    ///
    /// # Errors
    /// If it fails.
    fn launch(&mut self, series: &str, launches: u64) -> Result<Option<f64>, Refusal>;

    /// The output.
    ///
    /// # Errors
    /// If it can't be read.
    fn output(&mut self) -> Result<Vec<f32>, Refusal>;
}
