//! Functions that an emitted kernel calls, each printed only where it is called. They are in the namespace
//! `metile` and overloaded by type; none calls another.

pub mod float;
pub mod integer;
pub mod memory;

use std::collections::BTreeMap;
use std::fmt;

/// Functions by signature.
#[derive(Clone, Debug, Default)]
pub(super) struct Functions {
    texts: BTreeMap<String, String>,
}

impl Functions {
    /// Sees to it that the function is printed.
    pub fn need(&mut self, signature: impl Into<String>, text: impl FnOnce() -> String) {
        self.texts.entry(signature.into()).or_insert_with(text);
    }
}

impl fmt::Display for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.texts.is_empty() {
            return Ok(());
        }
        f.write_str("namespace metile {\n")?;
        for text in self.texts.values() {
            f.write_str(text.trim_end())?;
            f.write_str("\n")?;
        }
        f.write_str("} // namespace metile\n\n")
    }
}
