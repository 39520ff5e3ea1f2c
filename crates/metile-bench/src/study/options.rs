//! Options of studies, as data: the command line shows and reads them, a report keeps them.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A whole number of at least 1.
    Count,
    /// Whole numbers of at least 1.
    Counts,
    /// A number of at least 0.
    Number,
    /// Text.
    Text,
    /// Several texts.
    Texts,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A file or folder.
    Path,
    /// Yes or no: `--name` and `--no-name`.
    Flag,
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name, without dashes before it.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// What is taken if it is not given; several are separated by spaces. `None`: it may be left out.
    pub default: Option<&'static str>,
    /// What it does.
    pub help: &'static str,
}

/// Why options are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The study has no such option.
    #[error("no option --{0}")]
    Unknown(String),
    /// The option is not of the kind that is asked for, or has no value.
    #[error("--{name}: {message}")]
    Value {
        /// The option.
        name: String,
        /// What would be right.
        message: String,
    },
}

/// Options with their values.
#[derive(Clone, Debug)]
pub struct Chosen {
    specs: &'static [OptionSpec],
    given: BTreeMap<String, Vec<String>>,
}

impl Chosen {
    /// Options of `specs`, as given by name; a flag is given as `yes` or `no`.
    ///
    /// # Errors
    /// If there is no such option or a value is not of its kind.
    pub fn new(
        specs: &'static [OptionSpec],
        given: impl IntoIterator<Item = (String, Vec<String>)>,
    ) -> Result<Chosen, OptionError> {
        let mut chosen = Chosen { specs, given: BTreeMap::new() };
        for spec in specs {
            if let Some(default) = spec.default {
                let values = match spec.kind {
                    OptionKind::Counts | OptionKind::Texts => {
                        default.split_whitespace().map(str::to_owned).collect()
                    }
                    _ => vec![default.to_owned()],
                };
                chosen.given.insert(spec.name.to_owned(), values);
            }
        }
        for (name, values) in given {
            let spec = specs.iter().find(|s| s.name == name);
            let spec = spec.ok_or_else(|| OptionError::Unknown(name.clone()))?;
            check(spec, &values)?;
            chosen.given.insert(name, values);
        }
        Ok(chosen)
    }

    fn values(&self, name: &str) -> Result<&[String], OptionError> {
        if !self.specs.iter().any(|s| s.name == name) {
            return Err(OptionError::Unknown(name.to_owned()));
        }
        Ok(self.given.get(name).map_or(&[], Vec::as_slice))
    }

    fn one(&self, name: &str) -> Result<&str, OptionError> {
        self.values(name)?
            .first()
            .map(String::as_str)
            .ok_or_else(|| wrong(name, "it has to be given"))
    }

    /// The value of a `Count`.
    ///
    /// # Errors
    /// If there is none.
    pub fn count(&self, name: &str) -> Result<u64, OptionError> {
        self.one(name)?.parse().map_err(|_| wrong(name, "a whole number of at least 1"))
    }

    /// The values of `Counts`.
    ///
    /// # Errors
    /// If the study has no such option.
    pub fn counts(&self, name: &str) -> Result<Vec<u64>, OptionError> {
        let each = self.values(name)?.iter();
        each.map(|v| v.parse().map_err(|_| wrong(name, "whole numbers of at least 1"))).collect()
    }

    /// The value of a `Number`.
    ///
    /// # Errors
    /// If there is none.
    pub fn number(&self, name: &str) -> Result<f64, OptionError> {
        self.one(name)?.parse().map_err(|_| wrong(name, "a number of at least 0"))
    }

    /// The value of a `Text` or `OneOf`, if it has one.
    ///
    /// # Errors
    /// If the study has no such option.
    pub fn text(&self, name: &str) -> Result<Option<&str>, OptionError> {
        Ok(self.values(name)?.first().map(String::as_str))
    }

    /// The values of `Texts`.
    ///
    /// # Errors
    /// If the study has no such option.
    pub fn texts(&self, name: &str) -> Result<&[String], OptionError> {
        self.values(name)
    }

    /// The value of a `Path`, if it has one.
    ///
    /// # Errors
    /// If the study has no such option.
    pub fn path(&self, name: &str) -> Result<Option<PathBuf>, OptionError> {
        Ok(self.text(name)?.map(PathBuf::from))
    }

    /// Whether a `Flag` is set.
    ///
    /// # Errors
    /// If the study has no such option.
    pub fn flag(&self, name: &str) -> Result<bool, OptionError> {
        Ok(self.text(name)? == Some("yes"))
    }

    /// All options as a report keeps them.
    pub fn recorded(&self) -> BTreeMap<String, String> {
        let shown = |values: &Vec<String>| {
            let each: Vec<String> =
                values.iter().map(|v| crate::environment::shown_path(v)).collect();
            each.join(" ")
        };
        self.given.iter().map(|(name, values)| (name.clone(), shown(values))).collect()
    }
}

fn wrong(name: &str, message: &str) -> OptionError {
    OptionError::Value { name: name.to_owned(), message: message.to_owned() }
}

fn check(spec: &OptionSpec, values: &[String]) -> Result<(), OptionError> {
    let several = matches!(spec.kind, OptionKind::Counts | OptionKind::Texts);
    if values.is_empty() || (!several && values.len() != 1) {
        return Err(wrong(spec.name, if several { "at least one value" } else { "one value" }));
    }
    let refused = match spec.kind {
        OptionKind::Count | OptionKind::Counts => {
            let fine = |v: &String| v.parse::<u64>().is_ok_and(|n| n > 0);
            (!values.iter().all(fine)).then_some("a whole number of at least 1".to_owned())
        }
        OptionKind::Number => {
            let fine = |v: &String| v.parse::<f64>().is_ok_and(|n| n >= 0.0 && n.is_finite());
            (!values.iter().all(fine)).then_some("a number of at least 0".to_owned())
        }
        OptionKind::OneOf(names) => {
            let fine = |v: &String| names.contains(&v.as_str());
            (!values.iter().all(fine)).then(|| format!("one of {}", names.join(", ")))
        }
        OptionKind::Flag => {
            let fine = |v: &String| v == "yes" || v == "no";
            (!values.iter().all(fine)).then_some("yes or no".to_owned())
        }
        OptionKind::Text | OptionKind::Texts | OptionKind::Path => None,
    };
    refused.map_or(Ok(()), |message| Err(wrong(spec.name, &message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[OptionSpec] = &[
        OptionSpec { name: "pairs", kind: OptionKind::Count, default: Some("5"), help: "" },
        OptionSpec { name: "rows", kind: OptionKind::Counts, default: Some("1 2"), help: "" },
        OptionSpec { name: "root", kind: OptionKind::Path, default: None, help: "" },
        OptionSpec { name: "pack", kind: OptionKind::Flag, default: Some("yes"), help: "" },
    ];

    fn of(given: &[(&str, &[&str])]) -> Result<Chosen, OptionError> {
        let each = given
            .iter()
            .map(|(n, v)| ((*n).to_owned(), v.iter().map(|v| (*v).to_owned()).collect()));
        Chosen::new(SPECS, each)
    }

    #[test]
    fn what_is_not_given_is_as_by_default_and_is_recorded() {
        let chosen = of(&[("rows", &["4", "8"]), ("pack", &["no"])]).unwrap();
        assert_eq!(chosen.count("pairs"), Ok(5));
        assert_eq!(chosen.counts("rows"), Ok(vec![4, 8]));
        assert_eq!(chosen.flag("pack"), Ok(false));
        assert_eq!(chosen.path("root"), Ok(None));
        assert_eq!(chosen.recorded()["rows"], "4 8");
        assert_eq!(chosen.recorded()["pairs"], "5");
    }

    #[test]
    fn nothing_is_ignored() {
        assert_eq!(of(&[("row", &["1"])]).unwrap_err(), OptionError::Unknown("row".to_owned()));
        for (name, values) in [
            ("pairs", &["0"][..]),
            ("pairs", &["1", "2"]),
            ("rows", &[]),
            ("rows", &["1", "x"]),
            ("pack", &["maybe"]),
        ] {
            assert!(matches!(of(&[(name, values)]), Err(OptionError::Value { .. })), "{name}");
        }
    }
}
