//! What a check has to say.

use std::fmt;

/// Something that is wrong with a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub rule: &'static str,
    /// Where in the file.
    pub place: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            write!(f, "{}: {}", self.rule, self.message)
        } else {
            write!(f, "{}: {}: {}", self.rule, self.place, self.message)
        }
    }
}

/// A figure that was stored and has been recomputed.
#[derive(Clone, Debug, PartialEq)]
pub struct Recomputed {
    /// What it is of: a model, a case.
    pub of: String,
    /// Its name.
    pub name: String,
    /// As recomputed from raw samples.
    pub value: f64,
}

/// All that a check found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What is wrong.
    pub wrong: Vec<Finding>,
    /// What was recomputed from raw samples.
    pub recomputed: Vec<Recomputed>,
    /// What a reader has to know although it breaks no rule.
    pub notes: Vec<String>,
}

impl Findings {
    pub(crate) fn wrong(
        &mut self,
        rule: &'static str,
        place: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.wrong.push(Finding { rule, place: place.into(), message: message.into() });
    }

    /// A stored figure beside what it has to be: equal to within rounding.
    pub(crate) fn same(
        &mut self,
        rule: &'static str,
        place: impl Into<String>,
        what: &str,
        stored: f64,
        right: f64,
    ) -> bool {
        let same = agrees(stored, right);
        if !same {
            self.wrong(rule, place, format!("{what} is stored as {stored}, and is {right}"));
        }
        same
    }

    /// A time, rate or ratio: finite and above 0.
    pub(crate) fn positive(&mut self, place: impl Into<String>, value: f64) -> bool {
        let positive = value.is_finite() && value > 0.0;
        if !positive {
            self.wrong("positive times", place, format!("{value} is not above 0"));
        }
        positive
    }
}

/// Whether two figures are equal to within the rounding of a few operations.
pub(crate) fn agrees(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}
