//! Reductions over runs of elements.

use crate::Level;
#[cfg(target_arch = "x86_64")]
use crate::chain::avx2;
use crate::elementwise::{Work, run};
use metile_ir::arith;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{BinaryOp, ReduceOp};

/// Partial results that are kept side by side: enough that additions do not wait for each other.
const WIDTH: usize = 32;

struct Sum<'r>(&'r [f32]);
impl Work for Sum<'_> {
    type Output = f32;
    #[inline(always)]
    fn go<const FUSED: bool>(self) -> f32 {
        // From -0, so that a sum of nothing but -0 is -0.
        let mut totals = [-0.0f32; WIDTH];
        let (blocks, rest) = self.0.as_chunks::<WIDTH>();
        for block in blocks {
            for (total, x) in totals.iter_mut().zip(block) {
                *total += x;
            }
        }
        for (total, x) in totals.iter_mut().zip(rest) {
            *total += x;
        }
        let mut width = WIDTH;
        while width > 1 {
            width /= 2;
            for n in 0..width {
                totals[n] += totals[n + width];
            }
        }
        totals[0]
    }
}

struct Extreme<'r, const MAX: bool>(&'r [f32]);
impl<const MAX: bool> Work for Extreme<'_, MAX> {
    type Output = f32;
    #[inline(always)]
    fn go<const FUSED: bool>(self) -> f32 {
        let start = if MAX { f32::NEG_INFINITY } else { f32::INFINITY };
        let better = |a: f32, b: f32| {
            let wins = if MAX { a > b } else { a < b };
            if wins { a } else { b }
        };
        let mut best = [start; WIDTH];
        let mut unordered = [false; WIDTH];
        let (blocks, rest) = self.0.as_chunks::<WIDTH>();
        for block in blocks {
            for n in 0..WIDTH {
                best[n] = better(best[n], block[n]);
                unordered[n] |= block[n].is_nan();
            }
        }
        for (n, &x) in rest.iter().enumerate() {
            best[n] = better(best[n], x);
            unordered[n] |= x.is_nan();
        }
        let value = best.iter().fold(start, |a, &b| better(a, b));
        let any = unordered.iter().fold(false, |a, &b| a | b);
        if any { f32::NAN } else { value }
    }
}

/// Zeros compare equal, but one is above the other.
pub(crate) fn signed_zero(value: f32, run: &[f32], max: bool) -> f32 {
    if value != 0.0 {
        return value;
    }
    let wanted = if max { 0.0f32 } else { -0.0 };
    let found = run.iter().any(|x| x.to_bits() == wanted.to_bits());
    if found { wanted } else { -wanted }
}

/// The sum, with 32 partial sums in `f32`.
pub fn sum(level: Level, values: &[f32]) -> f32 {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level is only ever one that the machine has.
        Level::Avx2 => unsafe { avx2::reduce(ReduceOp::Sum, values) },
        _ => Sum(values).go::<false>(),
    }
}

/// The largest; NaN if any is, +0 above -0. `-inf` of nothing.
pub fn max(level: Level, values: &[f32]) -> f32 {
    let value = match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level is only ever one that the machine has.
        Level::Avx2 => unsafe { avx2::reduce(ReduceOp::Max, values) },
        _ => Extreme::<true>(values).go::<false>(),
    };
    signed_zero(value, values, true)
}

/// The smallest; NaN if any is, -0 below +0. `inf` of nothing.
pub fn min(level: Level, values: &[f32]) -> f32 {
    let value = match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level is only ever one that the machine has.
        Level::Avx2 => unsafe { avx2::reduce(ReduceOp::Min, values) },
        _ => Extreme::<false>(values).go::<false>(),
    };
    signed_zero(value, values, false)
}

/// Whether [`whole`] and [`combine`] know the reduction.
pub fn combines(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min)
}

/// What `n` `f32` elements combine to: their sum, the largest or the smallest.
///
/// # Safety
/// `values` is valid and aligned for `n` elements.
pub unsafe fn whole(level: Level, op: ReduceOp, values: *const u8, n: usize) -> f32 {
    // SAFETY: as the caller promises.
    let values = unsafe { run(values, n) };
    match op {
        ReduceOp::Sum => sum(level, values),
        ReduceOp::Max => max(level, values),
        _ => min(level, values),
    }
}

/// What two runs combine to that combined to `before` and `next`.
pub fn combine(op: ReduceOp, before: f32, next: f32) -> f32 {
    match op {
        ReduceOp::Sum => before + next,
        ReduceOp::Max => arith::float::max(before, next),
        _ => arith::float::min(before, next),
    }
}

/// The state of a reduction whose elements come a run at a time.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    op: ReduceOp,
    dtype: DType,
    /// The value so far, as bits; none before the first run.
    value: Option<u64>,
    /// Where that was first found, for arg-reductions.
    at: u64,
    /// Elements seen.
    count: u64,
}

impl Running {
    /// Before the first element.
    pub fn new(op: ReduceOp, dtype: DType) -> Running {
        Running { op, dtype, value: None, at: 0, count: 0 }
    }

    /// Takes in `n` elements.
    ///
    /// # Safety
    /// `values` is valid and aligned for `n` elements of the dtype.
    pub unsafe fn take(&mut self, level: Level, values: *const u8, n: usize) {
        if n == 0 {
            return;
        }
        if self.dtype == DType::F32 {
            // SAFETY: as the caller promises.
            self.floats(level, unsafe { run(values, n) });
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.others(values, n) };
        }
        self.count += n as u64;
    }

    /// Takes in `n` `f32` elements that combine to `value`; not for arg-reductions.
    pub fn take_combined(&mut self, value: f32, n: usize) {
        let next = match self.value {
            None => value,
            Some(bits) => combine(self.op, f32::from_bits(bits as u32), value),
        };
        self.value = Some(u64::from(next.to_bits()));
        self.count += n as u64;
    }

    fn floats(&mut self, level: Level, values: &[f32]) {
        let found = match self.op {
            ReduceOp::Sum => sum(level, values),
            ReduceOp::Max | ReduceOp::ArgMax => max(level, values),
            _ => min(level, values),
        };
        let before = self.value.map(|bits| f32::from_bits(bits as u32));
        let better = match (self.op, before) {
            (_, None) => true,
            (ReduceOp::ArgMax, Some(before)) => {
                !before.is_nan() && (found.is_nan() || found > before)
            }
            (ReduceOp::ArgMin, Some(before)) => {
                !before.is_nan() && (found.is_nan() || found < before)
            }
            _ => false,
        };
        let next = match (self.op, before) {
            (_, None) => found,
            (ReduceOp::Sum, Some(before)) => before + found,
            (ReduceOp::Max, Some(before)) => arith::float::max(before, found),
            (ReduceOp::Min, Some(before)) => arith::float::min(before, found),
            (_, Some(before)) => {
                if better {
                    found
                } else {
                    before
                }
            }
        };
        if better && matches!(self.op, ReduceOp::ArgMax | ReduceOp::ArgMin) {
            let same = |x: &f32| if found.is_nan() { x.is_nan() } else { *x == found };
            self.at = self.count + values.iter().position(same).unwrap_or(0) as u64;
        }
        self.value = Some(u64::from(next.to_bits()));
    }

    /// # Safety
    /// As [`take`](Self::take)'s.
    unsafe fn others(&mut self, values: *const u8, n: usize) {
        let bytes = self.dtype.bytes();
        for i in 0..n {
            let mut word = [0u8; 8];
            // SAFETY: as the caller promises.
            unsafe {
                std::ptr::copy_nonoverlapping(values.add(i * bytes), word.as_mut_ptr(), bytes);
            }
            let x = Scalar::from_bits(self.dtype, u64::from_le_bytes(word));
            let Some(bits) = self.value else {
                self.value = Some(x.bits());
                self.at = self.count + i as u64;
                continue;
            };
            let before = Scalar::from_bits(self.dtype, bits);
            let op = match self.op {
                ReduceOp::Sum => BinaryOp::Add,
                ReduceOp::Max | ReduceOp::ArgMax => BinaryOp::Max,
                ReduceOp::Min | ReduceOp::ArgMin => BinaryOp::Min,
                ReduceOp::Any => BinaryOp::Or,
                ReduceOp::All => BinaryOp::And,
            };
            // Reductions are defined on dtypes that have the operation.
            let next = arith::binary(op, before, x).unwrap_or(before);
            if next != before {
                self.at = self.count + i as u64;
            }
            self.value = Some(next.bits());
        }
    }

    /// The result, as bits.
    pub fn result(&self) -> u64 {
        match self.op {
            ReduceOp::ArgMax | ReduceOp::ArgMin => self.at,
            _ => self.value.unwrap_or(0),
        }
    }
}
