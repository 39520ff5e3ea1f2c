//! Names of values and buffers in the text form.

use crate::program::{Program, Shared, Value};
use std::collections::HashMap;

/// The names given to values so far: their authors', made unique by `.1`, `.2`, …, or numbers in order of printing.
#[derive(Default)]
pub(super) struct ValueNames {
    of: HashMap<Value, String>,
    hinted: HashMap<String, u64>,
    numbered: u64,
}

impl ValueNames {
    pub fn get(&mut self, program: &Program, value: Value) -> &str {
        let ValueNames { of, hinted, numbered } = self;
        of.entry(value).or_insert_with(|| {
            if !program.values.contains(value) {
                return format!("?{}", value.index());
            }
            let Some(hint) = &program.values[value].name else {
                *numbered += 1;
                return (*numbered - 1).to_string();
            };
            unique(hinted, sanitized(hint))
        })
    }
}

/// The names of shared buffers.
pub(super) struct BufferNames(Vec<String>);

impl BufferNames {
    pub fn new(program: &Program) -> BufferNames {
        let mut taken = HashMap::new();
        let names = program.shared.iter().map(|(_, b)| unique(&mut taken, sanitized(&b.name)));
        BufferNames(names.collect())
    }

    pub fn get(&self, buffer: Shared) -> String {
        self.0.get(buffer.index()).cloned().unwrap_or_else(|| format!("?{}", buffer.index()))
    }
}

fn unique(taken: &mut HashMap<String, u64>, name: String) -> String {
    let count = taken.entry(name.clone()).or_insert(0);
    *count += 1;
    // A sanitized name has no dot, so a suffixed name is never another's hint.
    if *count == 1 { name } else { format!("{name}.{}", *count - 1) }
}

/// `hint` as a name of the text form.
pub(super) fn sanitized(hint: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut name: String = hint.chars().map(word).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}
