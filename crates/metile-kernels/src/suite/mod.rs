//! The numerical regression suite: every kernel on small and awkward shapes, against references in f64.
//!
//! ```no_run
//! use metile::Device;
//!
//! let device = Device::interpreter();
//! for case in metile_kernels::suite::cases() {
//!     let outcome = case.run(&device)?;
//!     println!("{} {}: {:.2e}, {:.0} % of its bound", case.family, case.name, outcome.max_error(), 100.0 * outcome.of_bound());
//! }
//! # Ok::<(), metile::Error>(())
//! ```

mod attention;
mod data;
mod decoder;
mod elementwise;
mod heads;
mod matrices;
mod norms;
mod products;
mod rows;

use data::Trial;
use metile::{Device, Error};

/// What an element of a result should be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The value, computed in f64.
    pub value: f64,
    /// How far from it a device may be; 0 where the kernel only moves values or computes exactly.
    pub within: f64,
}

/// What a case gave on a device.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results, widened exactly.
    pub values: Vec<f64>,
    /// What they should be.
    pub expected: Vec<Expected>,
    /// Elements that the kernel had no business with, and changed.
    pub stray_writes: usize,
    /// The device's warnings, such as races that the interpreter found.
    pub warnings: Vec<String>,
    /// Time of the launches, preparation left out.
    pub seconds: f64,
}

impl Outcome {
    /// The results' bits, all NaNs being one: which one arithmetic gives is the device's own.
    pub fn bits(&self) -> Vec<u64> {
        let bits = |v: &f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
        self.values.iter().map(bits).collect()
    }

    /// The largest distance from the reference; infinite if a result is missing or is NaN, or finite, where the
    /// reference is not.
    pub fn max_error(&self) -> f64 {
        self.largest(|error, _| error)
    }

    /// The largest distance as a part of its bound: at most 1 if all results are within theirs.
    pub fn of_bound(&self) -> f64 {
        self.largest(|error, within| if error == 0.0 { 0.0 } else { error / within })
    }

    /// Whether all results are within their bounds, and nothing else was written or warned of.
    pub fn passed(&self) -> bool {
        self.of_bound() <= 1.0 && self.stray_writes == 0 && self.warnings.is_empty()
    }

    fn largest(&self, measure: impl Fn(f64, f64) -> f64) -> f64 {
        if self.values.len() != self.expected.len() {
            return f64::INFINITY;
        }
        let each = self.values.iter().zip(&self.expected).map(|(&got, want)| {
            let same = got == want.value || got.is_nan() && want.value.is_nan();
            let error = if same { 0.0 } else { (got - want.value).abs() };
            measure(if error.is_nan() { f64::INFINITY } else { error }, want.within)
        });
        each.fold(0.0, f64::max)
    }
}

type Results = Result<(Vec<f64>, Vec<Expected>), Error>;

/// A kernel with inputs, and what it should make of them.
pub struct Case {
    /// The kernel's family, as in `make bench BENCH="softmax gemm"`.
    pub family: &'static str,
    /// Entry function, dtypes and shape.
    pub name: String,
    /// Whether every device gives the interpreter's bits: the kernel only moves values or computes exactly.
    pub exact: bool,
    run: Box<dyn Fn(&mut Trial<'_>) -> Results + Send + Sync>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Case({} {})", self.family, self.name)
    }
}

impl Case {
    fn new(
        family: &'static str,
        name: String,
        run: impl Fn(&mut Trial<'_>) -> Results + Send + Sync + 'static,
    ) -> Case {
        Case { family, name, exact: false, run: Box::new(run) }
    }

    fn exact(mut self) -> Case {
        self.exact = true;
        self
    }

    /// Makes the inputs on `device`, launches, and computes the reference.
    ///
    /// # Errors
    /// If the device refuses the kernel or fails.
    pub fn run(&self, device: &Device) -> Result<Outcome, Error> {
        let mut trial = Trial::new(device);
        let (values, expected) = (self.run)(&mut trial)?;
        Ok(trial.finish(values, expected))
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let families = [
        elementwise::cases(),
        rows::cases(),
        norms::cases(),
        matrices::cases(),
        products::cases(),
        decoder::cases(),
        heads::cases(),
        attention::cases(),
    ];
    families.into_iter().flatten().collect()
}
