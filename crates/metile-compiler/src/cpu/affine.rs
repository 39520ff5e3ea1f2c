//! Integer tiles that are a scalar plus a step per axis: what most coordinates are.

use super::form::Reg;
use metile_ir::tile::{MAX_RANK, Shape};

/// The largest step that is kept as one; with tiles of at most 2^22 elements no index that starts in
/// a tensor can then wrap round into it again.
const MAX_STEP: u64 = 1 << 31;

/// The most registers that a sum is kept of.
const MAX_TERMS: usize = 8;

/// A wrapping sum of registers, each times a constant, and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linear {
    /// The constant.
    pub constant: i64,
    /// Registers with their factors, by rising register, no factor being 0.
    pub terms: Vec<(Reg, i64)>,
}

impl Linear {
    /// A constant.
    pub fn constant(constant: i64) -> Linear {
        Linear { constant, terms: Vec::new() }
    }
    /// One register.
    pub fn reg(reg: Reg) -> Linear {
        Linear { constant: 0, terms: vec![(reg, 1)] }
    }
    /// `self + factor · other`, unless it has too many terms.
    pub fn plus(&self, other: &Linear, factor: i64) -> Option<Linear> {
        let mut sum = self.clone();
        sum.add(other, factor);
        (sum.terms.len() <= MAX_TERMS).then_some(sum)
    }
    /// Adds `factor · other`, however many terms that makes.
    pub fn add(&mut self, other: &Linear, factor: i64) {
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(factor));
        for &(reg, by) in &other.terms {
            let by = by.wrapping_mul(factor);
            match self.terms.binary_search_by_key(&reg, |t| t.0) {
                Ok(at) => {
                    self.terms[at].1 = self.terms[at].1.wrapping_add(by);
                    if self.terms[at].1 == 0 {
                        self.terms.remove(at);
                    }
                }
                Err(at) if by != 0 => self.terms.insert(at, (reg, by)),
                Err(_) => {}
            }
        }
    }
    /// The value, if no register is needed for it.
    pub fn known(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }
    /// The value, given the registers.
    #[inline]
    pub fn value(&self, regs: &[u64]) -> i64 {
        self.terms.iter().fold(self.constant, |sum, &(reg, by)| {
            sum.wrapping_add((regs[reg as usize] as i64).wrapping_mul(by))
        })
    }
}

impl std::fmt::Display for Linear {
    /// `r3 + 2·r5 + 1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut first = true;
        for &(reg, by) in &self.terms {
            match (first, by) {
                (true, 1) => write!(f, "r{reg}")?,
                (true, _) => write!(f, "{by}·r{reg}")?,
                (false, 1) => write!(f, " + r{reg}")?,
                (false, _) => write!(f, " + {by}·r{reg}")?,
            }
            first = false;
        }
        match (first, self.constant) {
            (true, c) => write!(f, "{c}"),
            (false, 0) => Ok(()),
            (false, c) => write!(f, " + {c}"),
        }
    }
}

/// An `i64` tile whose element at position `p` is `base + Σ stepsₐ · pₐ`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The element at position 0.
    pub base: Linear,
    /// What each axis adds per position.
    pub steps: [i64; MAX_RANK],
}

impl Index {
    /// The same value everywhere.
    pub fn uniform(base: Linear) -> Index {
        Index { base, steps: [0; MAX_RANK] }
    }
    /// 0, 1, 2, … along `axis`.
    pub fn along(axis: usize) -> Index {
        let mut index = Index::uniform(Linear::default());
        index.steps[axis] = 1;
        index
    }
    /// `self + factor · other`, if it is such a tile.
    pub fn plus(&self, other: &Index, factor: i64) -> Option<Index> {
        let base = self.base.plus(&other.base, factor)?;
        let mut steps = self.steps;
        for (step, by) in steps.iter_mut().zip(other.steps) {
            *step = step.checked_add(by.checked_mul(factor)?)?;
        }
        Index { base, steps }.bounded()
    }
    /// Itself, unless it steps too far.
    fn bounded(self) -> Option<Index> {
        self.steps.iter().all(|s| s.unsigned_abs() <= MAX_STEP).then_some(self)
    }
    /// The tile with its axes moved as `walk` says.
    pub fn rearranged(&self, shape: &Shape, walk: &Rearrange<'_>) -> Option<Index> {
        let (offset, steps) = walk.apply(shape, &self.steps)?;
        let base = self.base.plus(&Linear::constant(offset), 1)?;
        Index { base, steps }.bounded()
    }
}

/// A rearrangement that a walk with one step per axis can follow.
#[derive(Clone, Copy, Debug)]
pub enum Rearrange<'r> {
    /// To a larger shape.
    Broadcast(&'r Shape),
    /// Row-major to another shape.
    Reshape(&'r Shape),
    /// Axis `i` of the result is axis `axes[i]`.
    Transpose(&'r [u8]),
    /// Every `step`-th position of `axis` from `start`.
    Slice { axis: usize, start: i64, step: i64 },
}

impl Rearrange<'_> {
    /// What is added to the first element, and the new steps; `None` if no such walk exists.
    pub fn apply(&self, shape: &Shape, steps: &[i64; MAX_RANK]) -> Option<(i64, [i64; MAX_RANK])> {
        let mut out = [0; MAX_RANK];
        match *self {
            Rearrange::Broadcast(to) => {
                let lead = to.rank() - shape.rank();
                for axis in 0..shape.rank() {
                    out[axis + lead] = if shape.side(axis) == 1 { 0 } else { steps[axis] };
                }
                Some((0, out))
            }
            Rearrange::Transpose(axes) => {
                for (axis, &from) in axes.iter().enumerate() {
                    out[axis] = steps[from as usize];
                }
                Some((0, out))
            }
            Rearrange::Slice { axis, start, step } => {
                out = *steps;
                let offset = steps[axis].checked_mul(start)?;
                out[axis] = steps[axis].checked_mul(step)?;
                Some((offset, out))
            }
            Rearrange::Reshape(to) => Some((0, reshape(shape, steps, to)?)),
        }
    }
}

/// The steps of a row-major reshape, if one step per axis is enough: axes are cut and joined in
/// groups of as many elements.
fn reshape(from: &Shape, steps: &[i64; MAX_RANK], to: &Shape) -> Option<[i64; MAX_RANK]> {
    let old: Vec<(usize, i64)> =
        (0..from.rank()).map(|a| (from.side(a), steps[a])).filter(|&(side, _)| side != 1).collect();
    let mut out = [0; MAX_RANK];
    let (mut axis, mut taken) = (0, 0);
    while taken < old.len() {
        // A group: as few old axes as there are new ones with the same number of elements.
        let (first, mut has, mut wants) = (taken, old[taken].0, 1);
        taken += 1;
        let start = axis;
        while wants != has {
            if wants < has {
                if axis >= to.rank() {
                    return None;
                }
                wants *= to.side(axis);
                axis += 1;
            } else {
                has *= old.get(taken)?.0;
                taken += 1;
            }
        }
        // The old axes of the group have to join to one.
        for pair in old[first..taken].windows(2) {
            if pair[0].1 != pair[1].1.checked_mul(pair[1].0 as i64)? {
                return None;
            }
        }
        let mut step = old[taken - 1].1;
        for new in (start..axis).rev() {
            out[new] = step;
            step = step.checked_mul(to.side(new) as i64)?;
        }
    }
    Some(out)
}
