//! Super-instructions: two element-wise steps and a reduction in one loop, so that nothing but the
//! result goes through memory. They name no kernel; every combination is generated.

use crate::Level;
use crate::elementwise::{Operand, Work, dispatch, math, run, run_mut};
use crate::reduce;
use metile_ir::tile::{BinaryOp, ReduceOp};

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

/// Elements that are worked on side by side.
const WIDTH: usize = 32;

trait First {
    fn apply(a: f32, b: f32) -> f32;
}
macro_rules! firsts {
    ($($name:ident, $a:ident, $b:ident, $value:expr;)*) => {$(
        struct $name;
        impl First for $name {
            #[inline(always)]
            fn apply($a: f32, $b: f32) -> f32 {
                $value
            }
        }
    )*};
}
firsts! {
    AddFirst, a, b, a + b;
    SubFirst, a, b, a - b;
    MulFirst, a, b, a * b;
    DivFirst, a, b, a / b;
}

trait Then {
    fn apply<const FUSED: bool>(x: f32, c: f32) -> f32;
}
macro_rules! seconds {
    ($($name:ident, $x:ident, $c:ident, $value:expr;)*) => {$(
        struct $name;
        impl Then for $name {
            #[inline(always)]
            fn apply<const FUSED: bool>($x: f32, $c: f32) -> f32 {
                $value
            }
        }
    )*};
}
seconds! {
    Nothing, x, _c, x;
    ThenExp, x, _c, math::exp::<FUSED>(x);
    ThenSquare, x, _c, x * x;
    ThenMul, x, c, x * c;
    ThenAdd, x, c, x + c;
}

const NO_REDUCTION: u8 = 0;
const SUM: u8 = 1;
const MAX: u8 = 2;

/// One loop. `ONE_B` and `ONE_C`: the operand is a single element.
struct Loop<'r, F, S, const ONE_B: bool, const ONE_C: bool, const REDUCE: u8> {
    a: &'r [f32],
    b: &'r [f32],
    c: &'r [f32],
    out: &'r mut [f32],
    _steps: std::marker::PhantomData<(F, S)>,
}

impl<F: First, S: Then, const ONE_B: bool, const ONE_C: bool, const REDUCE: u8> Work
    for Loop<'_, F, S, ONE_B, ONE_C, REDUCE>
{
    type Output = f32;
    #[inline(always)]
    fn go<const FUSED: bool>(self) -> f32 {
        let n = self.out.len();
        let mut totals = [if REDUCE == MAX { f32::NEG_INFINITY } else { -0.0 }; WIDTH];
        let mut unordered = [false; WIDTH];
        let (a, b, c) = (&self.a[..n], self.b, self.c);
        let (b, c) = (if ONE_B { b } else { &b[..n] }, if ONE_C { c } else { &c[..n] });
        let whole = n / WIDTH * WIDTH;
        let mut start = 0;
        while start < whole {
            let x: &[f32; WIDTH] = match a[start..start + WIDTH].first_chunk() {
                Some(x) => x,
                None => break,
            };
            let out = &mut self.out[start..start + WIDTH];
            let mut y = [0.0f32; WIDTH];
            for i in 0..WIDTH {
                let b = if ONE_B { b[0] } else { b[start + i] };
                let c = if ONE_C { c[0] } else { c[start + i] };
                y[i] = S::apply::<FUSED>(F::apply(x[i], b), c);
            }
            out.copy_from_slice(&y);
            for i in 0..WIDTH {
                if REDUCE == SUM {
                    totals[i] += y[i];
                } else if REDUCE == MAX {
                    totals[i] = if totals[i] > y[i] { totals[i] } else { y[i] };
                    unordered[i] |= y[i].is_nan();
                }
            }
            start += WIDTH;
        }
        for i in whole..n {
            let b = if ONE_B { b[0] } else { b[i] };
            let c = if ONE_C { c[0] } else { c[i] };
            let y = S::apply::<FUSED>(F::apply(a[i], b), c);
            self.out[i] = y;
            let lane = i - whole;
            if REDUCE == SUM {
                totals[lane] += y;
            } else if REDUCE == MAX {
                totals[lane] = if totals[lane] > y { totals[lane] } else { y };
                unordered[lane] |= y.is_nan();
            }
        }
        if REDUCE == MAX && unordered.iter().fold(false, |any, &u| any | u) {
            return f32::NAN;
        }
        let mut width = WIDTH;
        while REDUCE != NO_REDUCTION && width > 1 {
            width /= 2;
            for i in 0..width {
                let (x, y) = (totals[i], totals[i + width]);
                totals[i] = if REDUCE == SUM {
                    x + y
                } else if x > y {
                    x
                } else {
                    y
                };
            }
        }
        totals[0]
    }
}

/// Operands of one call.
struct Operands<'r> {
    level: Level,
    a: &'r [f32],
    b: &'r [f32],
    c: &'r [f32],
    one_b: bool,
    one_c: bool,
    out: &'r mut [f32],
}

impl Operands<'_> {
    fn loop_over<F: First, S: Then, const ONE_B: bool, const ONE_C: bool, const REDUCE: u8>(
        self,
    ) -> f32 {
        let Operands { level, a, b, c, out, .. } = self;
        let work =
            Loop::<F, S, ONE_B, ONE_C, REDUCE> { a, b, c, out, _steps: std::marker::PhantomData };
        dispatch(level, work)
    }

    fn reduced<F: First, S: Then, const ONE_B: bool, const ONE_C: bool>(
        self,
        reduce: Option<ReduceOp>,
    ) -> f32 {
        match reduce {
            None => self.loop_over::<F, S, ONE_B, ONE_C, NO_REDUCTION>(),
            Some(ReduceOp::Sum) => self.loop_over::<F, S, ONE_B, ONE_C, SUM>(),
            Some(_) => self.loop_over::<F, S, ONE_B, ONE_C, MAX>(),
        }
    }

    fn second<F: First, const ONE_B: bool>(self, chain: &Chain) -> f32 {
        let reduce = chain.reduce;
        match (chain.second, self.one_c) {
            (Second::None, _) => self.reduced::<F, Nothing, ONE_B, true>(reduce),
            (Second::Exp, _) => self.reduced::<F, ThenExp, ONE_B, true>(reduce),
            (Second::Square, _) => self.reduced::<F, ThenSquare, ONE_B, true>(reduce),
            (Second::Mul, true) => self.reduced::<F, ThenMul, ONE_B, true>(reduce),
            (Second::Mul, false) => self.reduced::<F, ThenMul, ONE_B, false>(reduce),
            (Second::Add, true) => self.reduced::<F, ThenAdd, ONE_B, true>(reduce),
            (Second::Add, false) => self.reduced::<F, ThenAdd, ONE_B, false>(reduce),
        }
    }

    fn first<const ONE_B: bool>(self, chain: &Chain) -> f32 {
        match chain.first {
            BinaryOp::Add => self.second::<AddFirst, ONE_B>(chain),
            BinaryOp::Sub => self.second::<SubFirst, ONE_B>(chain),
            BinaryOp::Mul => self.second::<MulFirst, ONE_B>(chain),
            // `Chain::exists` leaves nothing else.
            _ => self.second::<DivFirst, ONE_B>(chain),
        }
    }
}

/// `out = second(a first b, c)`, `n` elements; gives what the results combine to, as
/// [`reduce::sum`] and [`reduce::max`] would.
///
/// # Safety
/// The runs are valid and aligned for `n` `f32` (one, for a single one); `out` overlaps nothing that is
/// read; the chain exists.
pub unsafe fn chain(
    level: Level,
    chain: &Chain,
    a: *const u8,
    b: Operand,
    c: Operand,
    out: *mut u8,
    n: usize,
) -> f32 {
    // SAFETY: as the caller promises.
    let operands = unsafe {
        Operands {
            level,
            a: run(a, n),
            b: run(b.first, if b.one { 1 } else { n }),
            c: run(c.first, if c.one { 1 } else { n }),
            one_b: b.one,
            one_c: c.one,
            out: run_mut(out, n),
        }
    };
    let value =
        if operands.one_b { operands.first::<true>(chain) } else { operands.first::<false>(chain) };
    if chain.reduce == Some(ReduceOp::Max) {
        // SAFETY: written just now.
        return reduce::signed_zero(value, unsafe { run(out, n) }, true);
    }
    value
}
