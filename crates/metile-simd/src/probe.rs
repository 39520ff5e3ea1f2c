//! What the machine can do at all, for comparing with what it does.

use crate::Level;
use crate::lanes::{LANES, Lanes, Work, run};
use std::hint::black_box;

/// Multiplications and additions that are under way at once: more than any machine's latency needs.
const CHAINS: usize = 12;

struct Multiply(u64);
impl Work for Multiply {
    type Output = f32;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f32 {
        // Unknown to the compiler and different for each chain, or it would compute the sums itself, or one.
        let start: [f32; CHAINS] = black_box(std::array::from_fn(|n| n as f32));
        let constants = black_box([0.999_999, 1e-6]);
        // SAFETY: `run` is called with a level that the machine has.
        let (factor, addend) = unsafe { (L::splat(constants[0]), L::splat(constants[1])) };
        // SAFETY: as above.
        let mut totals = start.map(|x| unsafe { L::splat(x) });
        for _ in 0..self.0 {
            for total in &mut totals {
                *total = total.mul_add(factor, addend);
            }
        }
        totals.iter().fold(0.0, |sum, total| sum + total.sum())
    }
}

/// Multiplies and adds in registers; gives the floating-point operations done. The result of the
/// arithmetic is passed to `keep`, so that it is not optimized away.
pub fn multiply(level: Level, rounds: u64, keep: impl FnOnce(f32)) -> u64 {
    // SAFETY: a level is only ever one that the machine has.
    keep(unsafe { run(level, Multiply(rounds)) });
    rounds * (CHAINS * LANES * 2) as u64
}
