//! Comparing values within a tolerance.

use crate::schema::{Figure, Gate, GateClass, Mismatch, Tolerance};
use std::collections::BTreeMap;

/// Differences between what is and what should be, gathered over as many arrays as one likes.
#[derive(Clone, Debug)]
pub struct Differences {
    rtol: f64,
    atol: f64,
    bitwise: bool,
    elements: u64,
    max_abs: f64,
    max_rel: f64,
    squares: f64,
    of_tolerance: f64,
    outside: u64,
    first: Option<Mismatch>,
}

impl Differences {
    /// Elements may differ by atol + rtol · |expected|.
    pub fn within(rtol: f64, atol: f64) -> Differences {
        Differences {
            rtol,
            atol,
            bitwise: false,
            elements: 0,
            max_abs: 0.0,
            max_rel: 0.0,
            squares: 0.0,
            of_tolerance: 0.0,
            outside: 0,
            first: None,
        }
    }

    /// Elements have to be the same bits, as `f64`s of what they are.
    pub fn bitwise() -> Differences {
        Differences { bitwise: true, ..Differences::within(0.0, 0.0) }
    }

    /// Compares an element. NaN is outside of every tolerance, whatever was expected; so is an infinity that
    /// was not expected. `place` and `index` are asked for only once.
    pub fn add(&mut self, expected: f64, actual: f64, place: impl FnOnce() -> (String, Vec<u64>)) {
        self.elements += 1;
        let difference = if expected == actual { 0.0 } else { (actual - expected).abs() };
        let allowed = self.atol + self.rtol * expected.abs();
        let inside = if self.bitwise {
            expected.to_bits() == actual.to_bits() && !actual.is_nan()
        } else {
            difference <= allowed
        };
        if difference.is_finite() {
            self.max_abs = self.max_abs.max(difference);
            self.squares += difference * difference;
            if expected != 0.0 {
                self.max_rel = self.max_rel.max(difference / expected.abs());
            }
            if allowed > 0.0 {
                self.of_tolerance = self.of_tolerance.max(difference / allowed);
            }
        } else {
            self.max_abs = f64::INFINITY;
        }
        if !inside {
            self.outside += 1;
            if self.first.is_none() {
                let (place, index) = place();
                let (expected, actual) = (Figure::new(expected), Figure::new(actual));
                self.first = Some(Mismatch { place, index, expected, actual });
            }
        }
    }

    /// Compares arrays in order; indices are those of the arrays, plus `first`.
    pub fn add_all(&mut self, place: &str, first: u64, expected: &[f64], actual: &[f32]) {
        if expected.len() != actual.len() {
            self.outside += 1;
            self.first.get_or_insert(Mismatch {
                place: format!("{place}: number of elements"),
                index: Vec::new(),
                expected: Figure::new(expected.len() as f64),
                actual: Figure::new(actual.len() as f64),
            });
            return;
        }
        for (n, (&e, &a)) in expected.iter().zip(actual).enumerate() {
            self.add(e, f64::from(a), || (place.to_owned(), vec![first + n as u64]));
        }
    }

    /// Whether every element is within the tolerance, and there is one.
    pub fn passed(&self) -> bool {
        self.outside == 0 && self.elements > 0
    }

    /// How many elements were compared.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The first element outside.
    pub fn first(&self) -> Option<&Mismatch> {
        self.first.as_ref()
    }

    /// The errors by name, as a [`Gate`] has them.
    pub fn observed(&self) -> BTreeMap<String, Figure> {
        let mut all = BTreeMap::new();
        let mut say = |name: &str, value: f64| {
            let figure = match self.max_abs.is_finite() {
                true => Figure::new(value),
                false => Figure::missing("an element is not a finite number"),
            };
            all.insert(name.to_owned(), figure);
        };
        say("max_abs", self.max_abs);
        say("max_rel", self.max_rel);
        say("rms", (self.squares / self.elements.max(1) as f64).sqrt());
        if !self.bitwise {
            say("of_tolerance", self.of_tolerance);
        }
        all.insert("outside".to_owned(), Figure::new(self.outside as f64));
        all
    }

    /// The tolerance, as a [`Gate`] has it.
    pub fn tolerance(&self) -> Tolerance {
        match self.bitwise {
            true => Tolerance::Bitwise,
            false => Tolerance::Combined { rtol: self.rtol, atol: self.atol },
        }
    }

    /// A check of `arm` that decides.
    pub fn gate(&self, name: &str, class: GateClass, arm: &str, against: &str) -> Gate {
        Gate {
            name: name.to_owned(),
            class,
            arm: arm.to_owned(),
            against: against.to_owned(),
            decides: true,
            passed: self.passed(),
            tolerance: self.tolerance(),
            checked: BTreeMap::from([("elements".to_owned(), self.elements)]),
            observed: self.observed(),
            first_mismatch: self.first.clone(),
        }
    }
}

/// Compares two sequences of tokens: the same ids, and as many.
pub fn same_tokens(name: &str, arm: &str, against: &str, expected: &[u32], actual: &[u32]) -> Gate {
    let differs = expected.iter().zip(actual).position(|(e, a)| e != a);
    let at = differs.or((expected.len() != actual.len()).then(|| expected.len().min(actual.len())));
    let shown = |ids: &[u32], at: usize| {
        let id = ids.get(at).map(|&id| f64::from(id));
        id.map_or_else(|| Figure::missing("the sequence ends before"), Figure::new)
    };
    Gate {
        name: name.to_owned(),
        class: GateClass::Tokens,
        arm: arm.to_owned(),
        against: against.to_owned(),
        decides: true,
        passed: at.is_none() && !expected.is_empty(),
        tolerance: Tolerance::SameTokens,
        checked: BTreeMap::from([("tokens".to_owned(), expected.len() as u64)]),
        observed: BTreeMap::from([(
            "agreeing_tokens".to_owned(),
            Figure::new(at.unwrap_or(expected.len()) as f64),
        )]),
        first_mismatch: at.map(|at| Mismatch {
            place: format!("{name}: token"),
            index: vec![at as u64],
            expected: shown(expected, at),
            actual: shown(actual, at),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_element_outside_is_named() {
        let mut d = Differences::within(1e-3, 1e-3);
        d.add_all("x", 10, &[1.0, 1.0, 1.0], &[1.001, 1.01, 2.0]);
        assert!(!d.passed());
        assert_eq!(d.first().unwrap().index, [11]);
        assert_eq!(d.observed()["outside"].value, Some(2.0));
    }

    #[test]
    fn nan_and_nothing_never_pass() {
        for expected in [0.0, f64::NAN] {
            let mut d = Differences::within(1e9, 1e9);
            d.add_all("x", 0, &[expected], &[f32::NAN]);
            assert!(!d.passed());
            assert!(d.observed()["max_abs"].value.is_none());
        }
        assert!(!Differences::within(1.0, 1.0).passed());
        let mut d = Differences::within(1e9, 1e9);
        d.add_all("x", 0, &[1.0], &[f32::INFINITY]);
        assert!(!d.passed());
        let mut d = Differences::within(1.0, 1.0);
        d.add_all("x", 0, &[1.0, 2.0], &[1.0]);
        assert!(!d.passed());
    }

    #[test]
    fn bits_differ_where_values_do_not() {
        let mut d = Differences::bitwise();
        d.add_all("x", 0, &[0.0], &[-0.0]);
        assert!(!d.passed());
    }

    #[test]
    fn sequences_have_the_same_ids_and_as_many() {
        let of = |e: &[u32], a: &[u32]| same_tokens("t", "a", "b", e, a);
        assert!(of(&[1, 2], &[1, 2]).passed);
        assert!(!of(&[], &[]).passed);
        for (e, a, at) in [(&[1, 2][..], &[1, 3][..], 1), (&[1, 2], &[1], 1), (&[1], &[1, 2], 1)] {
            let gate = of(e, a);
            assert!(!gate.passed);
            assert_eq!(gate.first_mismatch.unwrap().index, [at]);
        }
    }
}
