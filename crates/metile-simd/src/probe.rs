//! What the machine can do at all, for comparing with what it does.

use crate::Level;
use crate::lanes::{LANES, Lanes, Work, run};

/// Multiplications and additions that are under way at once: more than any machine's latency needs.
const CHAINS: usize = 12;

struct Multiply(u64);
impl Work for Multiply {
    type Output = f32;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f32 {
        // SAFETY: `run` is called with a level that the machine has.
        let (factor, addend) = unsafe { (L::splat(0.999_999), L::splat(1e-6)) };
        let mut totals = [factor; CHAINS];
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
