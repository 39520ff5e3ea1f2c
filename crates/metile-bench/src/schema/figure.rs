//! Numbers that may be missing: a value, or null with the reason.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A finite number, or null with the reason why there is none. What is not finite has no value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The number; null if there is none.
    pub value: Option<f64>,
    /// Why there is none; absent where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Figure {
    /// `value`; if it is not finite, null, and that as the reason.
    pub fn new(value: f64) -> Figure {
        if value.is_finite() {
            Figure { value: Some(value), reason: None }
        } else {
            Figure::missing(format!("not a finite number: {value}"))
        }
    }

    /// No value.
    pub fn missing(reason: impl Into<String>) -> Figure {
        Figure { value: None, reason: Some(reason.into()) }
    }

    /// The value, or why there is none.
    pub fn from_result<E: std::fmt::Display>(value: Result<f64, E>) -> Figure {
        value.map_or_else(|why| Figure::missing(why.to_string()), Figure::new)
    }
}

impl From<Option<f64>> for Figure {
    fn from(value: Option<f64>) -> Figure {
        value.map_or_else(|| Figure::missing("the system does not say"), Figure::new)
    }
}
