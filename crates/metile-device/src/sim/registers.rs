//! The values of a warp.

use super::poison::Poison;
use crate::program::{Program, Type, Value, WARP};
use std::collections::HashMap;

/// Lanes of a warp.
pub(super) const LANES: usize = WARP as usize;
/// Elements of a fragment's matrix.
pub(super) const MATRIX: usize = 64;

/// The values of a warp that are alive. Of registers, one after the other, the lanes: the memory image of each, zero-extended. Of
/// a pointer, the address; of a fragment, the elements of each matrix, row by row, as `f32`.
#[derive(Debug)]
pub(super) struct Registers {
    values: Vec<Vec<u64>>,
    /// Of values with registers that hold nothing: which.
    poison: HashMap<Value, Poison>,
    free: Vec<Vec<u64>>,
}

impl Registers {
    pub fn new(program: &Program) -> Registers {
        Registers {
            values: vec![Vec::new(); program.values.len()],
            poison: HashMap::new(),
            free: Vec::new(),
        }
    }

    pub fn get(&self, value: Value) -> &[u64] {
        &self.values[value.index()]
    }

    pub fn get_mut(&mut self, value: Value) -> &mut [u64] {
        &mut self.values[value.index()]
    }

    /// Room for a value of this type, zeroed.
    pub fn room(&mut self, ty: Type) -> Vec<u64> {
        let mut room = self.free.pop().unwrap_or_default();
        room.clear();
        room.resize(words(ty), 0);
        room
    }

    /// The registers of `value` that hold nothing, if any do.
    pub fn poison(&self, value: Value) -> Option<&Poison> {
        if self.poison.is_empty() { None } else { self.poison.get(&value) }
    }

    pub fn set_poison(&mut self, value: Value, poison: Option<Poison>) {
        match poison {
            Some(poison) => drop(self.poison.insert(value, poison)),
            None if self.poison.is_empty() => {}
            None => drop(self.poison.remove(&value)),
        }
    }

    /// Whether any value has registers that hold nothing.
    pub fn is_poisoned(&self) -> bool {
        !self.poison.is_empty()
    }

    pub fn set(&mut self, value: Value, words: Vec<u64>) {
        self.set_poison(value, None);
        let old = std::mem::replace(&mut self.values[value.index()], words);
        self.recycle(old);
    }

    pub fn drop(&mut self, value: Value) {
        self.set_poison(value, None);
        let old = std::mem::take(&mut self.values[value.index()]);
        self.recycle(old);
    }

    fn recycle(&mut self, words: Vec<u64>) {
        if words.capacity() > 0 && self.free.len() < 64 {
            self.free.push(words);
        }
    }

    pub fn copy(&mut self, from: Value) -> Vec<u64> {
        let mut words = self.free.pop().unwrap_or_default();
        words.clear();
        words.extend_from_slice(self.get(from));
        words
    }

    /// Puts `words` into the lanes of `value` that `mask` names. What has no lanes is the same in all threads, and is
    /// replaced.
    pub fn merge(&mut self, value: Value, ty: Type, words: &[u64], mask: u32) {
        let to = &mut self.values[value.index()];
        if !matches!(ty, Type::Registers { .. }) || mask == u32::MAX {
            to.clear();
            to.extend_from_slice(words);
            return;
        }
        for (n, (to, &from)) in to.iter_mut().zip(words).enumerate() {
            if mask >> (n % LANES) & 1 != 0 {
                *to = from;
            }
        }
    }
}

fn words(ty: Type) -> usize {
    match ty {
        Type::Registers { count, .. } => count as usize * LANES,
        Type::Fragment { count, .. } => count as usize * MATRIX,
        Type::Pointer { .. } | Type::Token => 1,
    }
}

/// Register `n` of a lane; the only one if there is one.
pub(super) fn lane(words: &[u64], n: usize, lane: usize) -> u64 {
    let n = if words.len() == LANES { 0 } else { n };
    words.get(n * LANES + lane).copied().unwrap_or(0)
}

/// Whether a lane's register of bools is true.
pub(super) fn truth(words: &[u64], n: usize, at: usize) -> bool {
    lane(words, n, at) != 0
}

/// A register of integers as a number: `i64`, or `i32` sign-extended.
pub(super) fn offset(words: &[u64], wide: bool, n: usize, at: usize) -> i64 {
    let bits = lane(words, n, at);
    if wide { bits as i64 } else { i64::from(bits as u32 as i32) }
}

/// The lanes that `mask` names, beginning somewhere.
pub(super) fn lanes(mask: u32, first: usize) -> impl Iterator<Item = usize> {
    (0..LANES).map(move |n| (n + first) % LANES).filter(move |&n| mask >> n & 1 != 0)
}
