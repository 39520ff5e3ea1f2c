//! The kernels by name, each with the instances that can be shown: `metile kernel list`, `metile kernel show`.

mod list;

use metile::lang::Definition;
use std::fmt::Write;

pub use list::registry;

/// A kernel of the library.
#[derive(Debug)]
pub struct Entry {
    /// The function's name.
    pub name: &'static str,
    /// Its family, as in [`crate::suite::Case::family`].
    pub family: &'static str,
    /// What it computes, in a line.
    pub summary: &'static str,
    /// The generic parameter that `--dtype` stands for, if it has one.
    pub dtype: Option<&'static str>,
    instances: Vec<fn() -> Definition>,
}

/// A generic parameter of a kernel, and the values that instances have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, such as `BLOCK`.
    pub name: &'static str,
    /// Its values, such as `256` or `f16`; the first is taken if none is asked for.
    pub values: Vec<String>,
}

/// Why there is no such instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The kernel has no such parameter.
    #[error("kernel `{kernel}` has no parameter `{parameter}`; it has {known}")]
    Parameter {
        /// The kernel.
        kernel: &'static str,
        /// What was asked for.
        parameter: String,
        /// The parameters it has.
        known: String,
    },
    /// The kernel has one dtype only.
    #[error("kernel `{kernel}` has no choice of dtype; leave `{dtype}` out")]
    Dtype {
        /// The kernel.
        kernel: &'static str,
        /// What was asked for.
        dtype: String,
    },
    /// No instance has this value.
    #[error("kernel `{kernel}`: {parameter} can't be `{value}`; it is one of {legal}")]
    Value {
        /// The kernel.
        kernel: &'static str,
        /// The parameter.
        parameter: String,
        /// What was asked for.
        value: String,
        /// The values that instances have.
        legal: String,
    },
    /// Each value is there, but not in one instance.
    #[error(
        "kernel `{kernel}` has no instance with all of these; with {parameter} = {value} there are: {legal}"
    )]
    Combination {
        /// The kernel.
        kernel: &'static str,
        /// The first parameter asked for.
        parameter: String,
        /// Its value.
        value: String,
        /// The instances that have it.
        legal: String,
    },
}

/// The entry called `name`.
pub fn find(name: &str) -> Option<Entry> {
    registry().into_iter().find(|entry| entry.name == name)
}

impl Entry {
    /// The generic parameters, each with the values of its instances in order of first appearance.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all: Vec<Parameter> = Vec::new();
        for instance in &self.instances {
            for (name, value) in &instance().info().generics {
                let known = all.iter().position(|p| p.name == *name).unwrap_or_else(|| {
                    all.push(Parameter { name, values: Vec::new() });
                    all.len() - 1
                });
                if !all[known].values.contains(value) {
                    all[known].values.push(value.clone());
                }
            }
        }
        all
    }

    /// The first instance with this dtype and these values of generic parameters. Values are compared
    /// without regard to case.
    ///
    /// # Errors
    /// If a parameter or value is unknown, or no instance has them together; the error lists what there is.
    pub fn definition(
        &self,
        dtype: Option<&str>,
        settings: &[(&str, &str)],
    ) -> Result<Definition, SelectError> {
        let kernel = self.name;
        let mut wanted: Vec<(&str, &str)> = settings.to_vec();
        if let Some(dtype) = dtype {
            let refuse = || SelectError::Dtype { kernel, dtype: dtype.to_owned() };
            wanted.insert(0, (self.dtype.ok_or_else(refuse)?, dtype));
        }
        let parameters = self.parameters();
        for &(name, value) in &wanted {
            let Some(parameter) = parameters.iter().find(|p| p.name == name) else {
                let names: Vec<&str> = parameters.iter().map(|p| p.name).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(SelectError::Parameter { kernel, parameter: name.to_owned(), known });
            };
            if !parameter.values.iter().any(|v| v.eq_ignore_ascii_case(value)) {
                return Err(SelectError::Value {
                    kernel,
                    parameter: name.to_owned(),
                    value: value.to_owned(),
                    legal: parameter.values.join(", "),
                });
            }
        }
        let has = |definition: &Definition, (name, value): (&str, &str)| {
            let generics = &definition.info().generics;
            generics.iter().any(|(n, v)| *n == name && v.eq_ignore_ascii_case(value))
        };
        let all = || self.instances.iter().map(|instance| instance());
        if let Some(found) = all().find(|d| wanted.iter().all(|&w| has(d, w))) {
            return Ok(found);
        }
        let (parameter, value) = wanted.first().copied().unwrap_or_default();
        let mut legal = String::new();
        for definition in all().filter(|d| has(d, (parameter, value))) {
            let separator = if legal.is_empty() { "" } else { "; " };
            // Writing to a String can't fail.
            let _ = write!(legal, "{separator}{}", definition.info().label());
        }
        let (parameter, value) = (parameter.to_owned(), value.to_owned());
        Err(SelectError::Combination { kernel, parameter, value, legal })
    }
}
