//! `METILE_DUMP=stages[:kernel]`: prints a kernel's text after the named stages to standard error.
//!
//! Stages are separated by commas, `all` is every one: `METILE_DUMP=canonicalize,licm:softmax`.

use metile_ir::tile::Kernel;

/// Which stages of which kernel to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    stages: Vec<String>,
    kernel: Option<String>,
}

/// A stage name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("METILE_DUMP names the stage `{name}`; stages are {}", known.join(", "))]
pub struct UnknownStage {
    /// The name given.
    pub name: String,
    /// The names there are.
    pub known: Vec<&'static str>,
}

impl Dump {
    /// What the environment asks for.
    ///
    /// # Errors
    /// If it names a stage that does not exist.
    pub fn from_env(known: &[&'static str]) -> Result<Dump, UnknownStage> {
        match std::env::var("METILE_DUMP") {
            Ok(text) => Dump::parse(&text, known),
            Err(_) => Ok(Dump::default()),
        }
    }

    /// What `text` asks for.
    ///
    /// # Errors
    /// If it names a stage that does not exist.
    pub fn parse(text: &str, known: &[&'static str]) -> Result<Dump, UnknownStage> {
        let (stages, kernel) = match text.split_once(':') {
            Some((stages, kernel)) => (stages, Some(kernel.to_owned())),
            None => (text, None),
        };
        let mut chosen = Vec::new();
        for name in stages.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            if name == "all" {
                chosen.extend(known.iter().map(|s| (*s).to_owned()));
            } else if known.contains(&name) {
                chosen.push(name.to_owned());
            } else {
                let mut known = known.to_vec();
                known.push("all");
                return Err(UnknownStage { name: name.to_owned(), known });
            }
        }
        Ok(Dump { stages: chosen, kernel })
    }

    /// Whether `stage` of `kernel` is asked for.
    pub fn wants(&self, stage: &str, kernel: &str) -> bool {
        self.stages.iter().any(|s| s == stage)
            && self.kernel.as_deref().is_none_or(|k| k == kernel)
    }

    /// Prints the kernel if this stage of it is asked for.
    pub fn show(&self, stage: &str, kernel: &Kernel) {
        if self.wants(stage, &kernel.name) {
            eprintln!("// {} after {stage}\n{kernel}", kernel.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stages_and_kernel() {
        let known = ["fold", "cse"];
        let dump = Dump::parse("fold, cse:softmax", &known).unwrap();
        assert!(dump.wants("fold", "softmax") && dump.wants("cse", "softmax"));
        assert!(!dump.wants("fold", "gemm"));
        assert!(Dump::parse("all", &known).unwrap().wants("cse", "anything"));
        assert!(!Dump::parse("", &known).unwrap().wants("cse", "anything"));
        let error = Dump::parse("folt", &known).unwrap_err();
        assert_eq!(
            error.to_string(),
            "METILE_DUMP names the stage `folt`; stages are fold, cse, all"
        );
    }
}
