//! Super-instructions: two element-wise steps and a reduction in one loop, so that nothing but the
//! result goes through memory. They name no kernel; every combination is generated.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;

use crate::Level;
use crate::elementwise::{MAX_RUN, Operand, math, run, run_mut};
use crate::reduce;
use metile_ir::tile::{BinaryOp, ReduceOp};
use std::mem::MaybeUninit;

/// The second step of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Second {
    /// There is none.
    None,
    /// e^x.
    Exp,
    /// x · x.
    Square,
    /// x · c.
    Mul,
    /// x + c.
    Add,
}

/// What a chain computes: `y = second(a first b, c)`, and what the elements of `y` combine to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chain {
    /// `Add`, `Sub`, `Mul` or `Div`.
    pub first: BinaryOp,
    /// What follows.
    pub second: Second,
    /// `Sum` or `Max`, or nothing.
    pub reduce: Option<ReduceOp>,
}

impl Chain {
    /// Whether there is such a chain.
    pub fn exists(&self) -> bool {
        matches!(self.first, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div)
            && matches!(self.reduce, None | Some(ReduceOp::Sum | ReduceOp::Max))
    }
}

/// Operands of one call on machines without vectors of their own here: the steps one after the other.
struct Operands<'r> {
    a: &'r [f32],
    b: &'r [f32],
    c: &'r [f32],
    one_b: bool,
    one_c: bool,
    out: &'r mut [f32],
}

impl Operands<'_> {
    fn go(self, chain: &Chain) -> f32 {
        let Operands { a, b, c, one_b, one_c, out } = self;
        match chain.first {
            BinaryOp::Add => zip(a, b, one_b, out, |a, b| a + b),
            BinaryOp::Sub => zip(a, b, one_b, out, |a, b| a - b),
            BinaryOp::Mul => zip(a, b, one_b, out, |a, b| a * b),
            // `Chain::exists` leaves nothing else.
            _ => zip(a, b, one_b, out, |a, b| a / b),
        }
        match chain.second {
            Second::None => {}
            Second::Exp => out.iter_mut().for_each(|y| *y = math::exp::<FUSED>(*y)),
            Second::Square => out.iter_mut().for_each(|y| *y *= *y),
            Second::Mul => update(out, c, one_c, |y, c| y * c),
            Second::Add => update(out, c, one_c, |y, c| y + c),
        }
        match chain.reduce {
            None => 0.0,
            Some(ReduceOp::Sum) => reduce::sum(Level::Portable, out),
            Some(_) => reduce::max(Level::Portable, out),
        }
    }
}

/// Whether `mul_add` is one instruction of the compilation target.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

fn zip(a: &[f32], b: &[f32], one_b: bool, out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    if one_b {
        let b = b[0];
        out.iter_mut().zip(a).for_each(|(y, &a)| *y = f(a, b));
    } else {
        out.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y = f(a, b));
    }
}

fn update(out: &mut [f32], c: &[f32], one_c: bool, f: impl Fn(f32, f32) -> f32) {
    if one_c {
        let c = c[0];
        out.iter_mut().for_each(|y| *y = f(*y, c));
    } else {
        out.iter_mut().zip(c).for_each(|(y, &c)| *y = f(*y, c));
    }
}

/// `out = second(a first b, c)`, `n` elements; gives what the results combine to, as
/// [`reduce::sum`] and [`reduce::max`] would. `out` may be null if the chain sums: then only the sum is wanted.
///
/// # Safety
/// The runs are valid and aligned for `n` `f32` (one, for a single one), `n` at most [`MAX_RUN`]; `out` overlaps
/// nothing that is read; the chain exists.
pub unsafe fn chain(
    level: Level,
    chain: &Chain,
    a: *const u8,
    b: Operand,
    c: Operand,
    out: *mut u8,
    n: usize,
) -> f32 {
    let value = match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller promises; a level is only ever one that the machine has.
        Level::Avx2 => unsafe {
            let (b, one_b, c, one_c) = (b.first.cast(), b.one, c.first.cast(), c.one);
            let runs = avx2::Runs { a: a.cast(), b, one_b, c, one_c, out: out.cast(), n };
            avx2::chain(chain, &runs)
        },
        // SAFETY: as the caller promises; there is room for a run.
        _ => unsafe {
            let mut room = [const { MaybeUninit::<f32>::uninit() }; MAX_RUN];
            let out = if out.is_null() { room.as_mut_ptr().cast() } else { out };
            let operands = Operands {
                a: run(a, n),
                b: run(b.first, if b.one { 1 } else { n }),
                c: run(c.first, if c.one { 1 } else { n }),
                one_b: b.one,
                one_c: c.one,
                out: run_mut(out, n),
            };
            operands.go(chain)
        },
    };
    if chain.reduce == Some(ReduceOp::Max) {
        // SAFETY: written just now.
        return reduce::signed_zero(value, unsafe { run(out, n) }, true);
    }
    value
}
