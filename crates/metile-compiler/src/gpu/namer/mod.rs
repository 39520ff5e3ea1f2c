//! Identifiers of emitted source: legal in the target's language, and each given once.

mod words;

pub use words::{CUDA, MSL};

use std::collections::HashSet;

/// Words that a language keeps for itself, in groups; see [`MSL`] and [`CUDA`].
pub type Reserved = &'static [&'static [&'static str]];

/// Gives out identifiers.
#[derive(Clone, Debug)]
pub struct Namer {
    reserved: Reserved,
    taken: HashSet<String>,
}

impl Namer {
    /// A namer for a language that keeps `reserved` for itself.
    pub fn new(reserved: Reserved) -> Namer {
        Namer { reserved, taken: HashSet::new() }
    }

    /// An identifier that was not given before: `wanted` itself if it may be, else with a number.
    /// What no identifier of C++ has becomes `_`; never two of them, nor one at the start or the end,
    /// since such names are the implementation's.
    pub fn name(&mut self, wanted: &str) -> String {
        let mut stem = String::new();
        for c in wanted.chars() {
            let c = if c.is_ascii_alphanumeric() { c } else { '_' };
            if c != '_' || !(stem.is_empty() || stem.ends_with('_')) {
                stem.push(c);
            }
        }
        let stem = stem.trim_end_matches('_');
        let stem = match stem.chars().next() {
            None => "v".to_owned(),
            Some(first) if first.is_ascii_digit() => format!("v{stem}"),
            Some(_) => stem.to_owned(),
        };
        let mut name = stem.clone();
        let mut n = 2u64;
        while self.is_reserved(&name) || self.taken.contains(&name) {
            name = format!("{stem}_{n}");
            n += 1;
        }
        self.taken.insert(name.clone());
        name
    }

    fn is_reserved(&self, name: &str) -> bool {
        self.reserved.iter().any(|group| group.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_once() {
        let mut namer = Namer::new(MSL);
        let names: Vec<String> =
            ["row", "row", "row_2", "row"].map(|name| namer.name(name)).into_iter().collect();
        assert_eq!(names, ["row", "row_2", "row_2_2", "row_3"]);
    }

    #[test]
    fn reserved_words_get_a_number() {
        for (reserved, words) in [
            (MSL, &["kernel", "thread", "half", "float4", "template", "main", "simd_shuffle"][..]),
            (CUDA, &["float4", "template", "threadIdx", "half", "warpSize", "asm"][..]),
        ] {
            for word in words {
                assert_eq!(Namer::new(reserved).name(word), format!("{word}_2"));
            }
        }
    }

    #[test]
    fn every_name_is_an_identifier() {
        let mut namer = Namer::new(CUDA);
        let names = ["", "_", "__x", "a__b", "r#type", "größe", "9", "x_"].map(|n| namer.name(n));
        assert_eq!(names, ["v", "v_2", "x", "a_b", "r_type", "gr_e", "v9", "x_2"]);
    }
}
