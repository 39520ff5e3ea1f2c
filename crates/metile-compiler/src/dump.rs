//! `METILE_DUMP`: which stages of compilation are shown, for which kernel.
//!
//! `METILE_DUMP=stages[:kernel]`, where `stages` are names from [`STAGES`] with commas between, or
//! `all`: `METILE_DUMP=canonicalize,licm:softmax`. Without a kernel's name every kernel is shown.
//! This is the only place that reads the variable.

use metile_ir::tile::Kernel;
use std::fmt;
use std::io::Write;

/// The variable's name.
pub const VARIABLE: &str = "METILE_DUMP";

/// Every stage there is, in order: the kernel as it came, after each pass, and as it leaves.
pub const STAGES: [&str; 7] = ["input", "fold", "canonicalize", "cse", "licm", "dce", "optimized"];

/// What is to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    stages: Vec<&'static str>,
    kernel: Option<String>,
}

/// Why the text of the variable was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpError {
    /// No stage has this name.
    UnknownStage(String),
    /// There are no stages before the colon, or no kernel after it.
    Empty(String),
    /// The variable is not text.
    NotUnicode,
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::UnknownStage(name) => write!(
                f,
                "{VARIABLE}: there is no stage `{name}`; the stages are {}, or `all`",
                STAGES.join(", ")
            ),
            DumpError::Empty(text) => {
                write!(f, "{VARIABLE}: `{text}` is not of the form `stages` or `stages:kernel`")
            }
            DumpError::NotUnicode => write!(f, "{VARIABLE} is not valid Unicode"),
        }
    }
}

impl std::error::Error for DumpError {}

impl Dump {
    /// Shows nothing.
    pub fn none() -> Dump {
        Dump::default()
    }

    /// What `METILE_DUMP` asks for; nothing if it is unset or empty.
    ///
    /// # Errors
    /// If it names an unknown stage, or is not of the form `stages[:kernel]`.
    pub fn from_env() -> Result<Dump, DumpError> {
        match std::env::var(VARIABLE) {
            Ok(text) if text.is_empty() => Ok(Dump::none()),
            Ok(text) => Dump::parse(&text),
            Err(std::env::VarError::NotPresent) => Ok(Dump::none()),
            Err(std::env::VarError::NotUnicode(_)) => Err(DumpError::NotUnicode),
        }
    }

    /// Reads `stages[:kernel]`.
    ///
    /// # Errors
    /// As [`Dump::from_env`].
    pub fn parse(text: &str) -> Result<Dump, DumpError> {
        let (stages, kernel) = match text.split_once(':') {
            Some((stages, kernel)) => (stages, Some(kernel.trim().to_owned())),
            None => (text, None),
        };
        if stages.trim().is_empty() || kernel.as_deref() == Some("") {
            return Err(DumpError::Empty(text.to_owned()));
        }
        let mut found = Vec::new();
        for name in stages.split(',').map(str::trim) {
            if name == "all" {
                found.extend(STAGES);
                continue;
            }
            let stage = STAGES.into_iter().find(|&s| s == name);
            found.push(stage.ok_or_else(|| DumpError::UnknownStage(name.to_owned()))?);
        }
        Ok(Dump { stages: found, kernel })
    }

    /// Whether the stage is shown for the kernel of this name.
    pub fn wants(&self, stage: &str, kernel: &str) -> bool {
        self.stages.contains(&stage) && self.kernel.as_deref().is_none_or(|name| name == kernel)
    }

    /// Shows the kernel on standard error, if it is asked for.
    pub fn show(&self, stage: &str, note: &str, kernel: &Kernel) {
        if !self.wants(stage, &kernel.name) {
            return;
        }
        let text = format!("// {}: {stage}{note}\n{kernel}\n", kernel.name);
        // A closed standard error is no reason to stop compiling.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::Pass;

    #[test]
    fn stages_and_kernels_are_named() {
        let dump = Dump::parse("canonicalize, licm:softmax").expect("parses");
        assert!(dump.wants("licm", "softmax") && dump.wants("canonicalize", "softmax"));
        assert!(!dump.wants("licm", "norm") && !dump.wants("dce", "softmax"));
        let all = Dump::parse("all").expect("parses");
        assert!(STAGES.iter().all(|stage| all.wants(stage, "any")));
        assert!(!Dump::none().wants("dce", "softmax"));
    }

    #[test]
    fn unknown_stages_are_refused_with_the_list() {
        let error = Dump::parse("cse,inline").expect_err("no such stage").to_string();
        assert!(error.contains("`inline`") && error.contains("canonicalize, cse, licm"), "{error}");
        for text in ["", ":softmax", "cse:", ","] {
            assert!(Dump::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_pass_is_a_stage() {
        for pass in Pass::ALL {
            assert!(STAGES.contains(&pass.name()));
        }
    }
}
