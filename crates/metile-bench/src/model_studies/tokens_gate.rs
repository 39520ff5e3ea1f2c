//! The class *tokens*: arms that show no state, and whose arithmetic differs, agree on prompts that are known to be
//! far from ties.

use super::candidate::{Candidate, NAME};
use super::rival::Rival;
use crate::gate::same_tokens;
use crate::schema::Gate;
use crate::study::{OpenError, Refusal};
use serde::Deserialize;
use std::path::Path;

/// Prompts on which engines of different arithmetic have been seen to agree.
#[derive(Clone, Debug, Deserialize)]
pub struct Agreed {
    /// The prompts.
    #[serde(rename = "cases")]
    pub prompts: Vec<AgreedPrompt>,
}

/// A prompt and what follows it.
#[derive(Clone, Debug, Deserialize)]
pub struct AgreedPrompt {
    /// Ids of the prompt.
    pub prompt_ids: Vec<u32>,
    /// The greedy ids after it.
    pub greedy_ids: Vec<u32>,
}

impl Agreed {
    /// Reads a file of agreed prompts.
    ///
    /// # Errors
    /// If it can't be read, or has no prompt.
    pub fn read(path: &Path) -> Result<Agreed, OpenError> {
        let fail = |problem: String| OpenError::Missing(format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
        Agreed::parse(&text).map_err(fail)
    }

    /// What is wrong with `text`, or the prompts in it.
    fn parse(text: &str) -> Result<Agreed, String> {
        let agreed: Agreed = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let empty = |p: &AgreedPrompt| p.prompt_ids.is_empty() || p.greedy_ids.is_empty();
        match agreed.prompts.is_empty() || agreed.prompts.iter().any(empty) {
            true => Err("no prompts, or one without ids".to_owned()),
            false => Ok(agreed),
        }
    }

    /// The most entries of a cache that one of them needs.
    pub fn capacity(&self) -> usize {
        let each = self.prompts.iter().map(|p| p.prompt_ids.len() + p.greedy_ids.len());
        each.max().unwrap_or(0)
    }

    /// Both arms on every prompt, against what is agreed and so each other.
    ///
    /// # Errors
    /// If one can't be run.
    pub fn gates(
        &self,
        candidate: &mut Candidate,
        rival: &mut dyn Rival,
        against: &str,
    ) -> Result<Vec<Gate>, Refusal> {
        let mut gates = Vec::new();
        for (n, prompt) in self.prompts.iter().enumerate() {
            let outputs = prompt.greedy_ids.len();
            candidate.poison()?;
            let ours = candidate.generate(&prompt.prompt_ids, outputs, None)?.ids;
            let theirs = rival.generate(&prompt.prompt_ids, outputs, None)?.ids;
            let name = format!("greedy tokens of agreed prompt {n}");
            let known = "the agreed ids";
            gates.push(same_tokens(&name, NAME, known, &prompt.greedy_ids, &ours));
            gates.push(same_tokens(&name, against, known, &prompt.greedy_ids, &theirs));
            gates.push(same_tokens(&name, NAME, against, &theirs, &ours));
        }
        Ok(gates)
    }
}
