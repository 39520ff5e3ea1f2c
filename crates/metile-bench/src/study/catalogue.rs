//! All studies by name.

use super::{Chosen, OptionError, OptionSpec, Refusal, Study};
use crate::schema::Declaration;
use metile::Device;

/// What a study is opened with.
#[derive(Debug)]
pub struct Setup {
    /// Where the candidate computes.
    pub device: Device,
    /// The options.
    pub chosen: Chosen,
    /// What draws inputs and orders.
    pub seed: u64,
}

/// Why a study can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Something that the study needs is not there.
    #[error("{0}")]
    Missing(String),
    /// It does not start.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What opens a study.
pub type Open = fn(&Setup) -> Result<Box<dyn Study>, OpenError>;

/// A study of the catalogue.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The declaration, with the numbers of the full definition.
    pub declaration: fn() -> Declaration,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Opens it; or what it waits for.
    pub open: Result<Open, &'static str>,
}

impl Entry {
    /// The study with the options that `setup` has.
    ///
    /// # Errors
    /// If it waits for something, an option is wrong, or what it needs is not there.
    pub fn open(&self, setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
        match self.open {
            Ok(open) => open(setup),
            Err(waits) => Err(OpenError::Missing(format!("this study {waits}"))),
        }
    }
}

/// All studies.
pub fn catalogue() -> Vec<Entry> {
    let mut all = crate::kernel_studies::entries();
    all.extend(crate::model_studies::entries());
    all
}
