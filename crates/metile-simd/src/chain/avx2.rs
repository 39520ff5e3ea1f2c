//! Chains and reductions in AVX2 registers. Left to itself the compiler keeps partial results of these
//! loops in memory.

use super::Chain;
use super::Second;
use crate::elementwise::math;
use metile_ir::tile::{BinaryOp, ReduceOp};
use std::arch::x86_64::*;

type V = __m256;

/// Vectors that are worked on side by side, so that additions do not wait for each other.
const WIDE: usize = 4;
const LANES: usize = 8;

/// Vectors that go through a step together: independent instructions side by side, since the processor
/// does not look far enough ahead to find them in the next vector.
type Group<const N: usize> = [V; N];

trait First {
    unsafe fn apply(a: V, b: V) -> V;
}
trait Then {
    unsafe fn apply<const N: usize>(x: Group<N>, c: Group<N>) -> Group<N>;
}
trait Reduce {
    const START: f32;
    unsafe fn apply(total: V, x: V) -> V;
    /// Whether NaNs have to be looked for.
    const LOSES_NAN: bool;
}

macro_rules! first_steps {
    ($($name:ident |$a:ident, $b:ident| $value:expr;)*) => {$(
        struct $name;
        impl First for $name {
            #[inline(always)]
            unsafe fn apply($a: V, $b: V) -> V {
                // SAFETY: only called where AVX2 and FMA are.
                #[allow(unused_unsafe)]
                unsafe { $value }
            }
        }
    )*};
}
first_steps! {
    AddFirst |a, b| _mm256_add_ps(a, b);
    SubFirst |a, b| _mm256_sub_ps(a, b);
    MulFirst |a, b| _mm256_mul_ps(a, b);
    DivFirst |a, b| _mm256_div_ps(a, b);
    OnlyA |a, _b| a;
}

macro_rules! second_steps {
    ($($name:ident |$x:ident, $c:ident| $value:expr;)*) => {$(
        struct $name;
        impl Then for $name {
            #[inline(always)]
            unsafe fn apply<const N: usize>(mut group: Group<N>, c: Group<N>) -> Group<N> {
                for n in 0..N {
                    let ($x, $c) = (group[n], c[n]);
                    // SAFETY: only called where AVX2 and FMA are.
                    #[allow(unused_unsafe)]
                    { group[n] = unsafe { $value } };
                }
                group
            }
        }
    )*};
}
second_steps! {
    Nothing |x, _c| x;
    ThenSquare |x, _c| _mm256_mul_ps(x, x);
    ThenMul |x, c| _mm256_mul_ps(x, c);
    ThenAdd |x, c| _mm256_add_ps(x, c);
}

struct ThenExp;
impl Then for ThenExp {
    #[inline(always)]
    unsafe fn apply<const N: usize>(x: Group<N>, _: Group<N>) -> Group<N> {
        // SAFETY: only called where AVX2 and FMA are.
        unsafe { exp(x) }
    }
}

struct NoReduce;
impl Reduce for NoReduce {
    const START: f32 = 0.0;
    const LOSES_NAN: bool = false;
    #[inline(always)]
    unsafe fn apply(total: V, _: V) -> V {
        total
    }
}
struct Sum;
impl Reduce for Sum {
    const START: f32 = -0.0;
    const LOSES_NAN: bool = false;
    #[inline(always)]
    unsafe fn apply(total: V, x: V) -> V {
        // SAFETY: only called where AVX is.
        unsafe { _mm256_add_ps(total, x) }
    }
}
struct Max;
impl Reduce for Max {
    const START: f32 = f32::NEG_INFINITY;
    const LOSES_NAN: bool = true;
    #[inline(always)]
    unsafe fn apply(total: V, x: V) -> V {
        // SAFETY: only called where AVX is.
        unsafe { _mm256_max_ps(x, total) }
    }
}
struct Min;
impl Reduce for Min {
    const START: f32 = f32::INFINITY;
    const LOSES_NAN: bool = true;
    #[inline(always)]
    unsafe fn apply(total: V, x: V) -> V {
        // SAFETY: only called where AVX is.
        unsafe { _mm256_min_ps(x, total) }
    }
}

/// Keeps the compiler from moving work on one vector of a group ahead of that on the others: it would
/// put the steps of each vector in a row, where each waits for the one before.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn together<const N: usize>(x: &mut Group<N>) {
    if let [a, b, c, d] = x.as_mut_slice() {
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!(
                "/* {0} {1} {2} {3} */",
                inout(ymm_reg) * a,
                inout(ymm_reg) * b,
                inout(ymm_reg) * c,
                inout(ymm_reg) * d,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
}

/// e^x, bit for bit as [`math::exp`] computes it.
#[inline(always)]
unsafe fn exp<const N: usize>(x: Group<N>) -> Group<N> {
    // SAFETY: only called where AVX2 and FMA are.
    unsafe {
        // Up to here the result is neither infinite nor subnormal. As integers NaNs are above.
        let most = _mm256_set1_epi32(87.0f32.to_bits() as i32);
        let sign = _mm256_set1_epi32(i32::MIN);
        let mut largest = _mm256_setzero_si256();
        for v in x {
            let magnitude = _mm256_andnot_si256(sign, _mm256_castps_si256(v));
            largest = _mm256_max_epu32(largest, magnitude);
        }
        let beyond = _mm256_cmpgt_epi32(largest, most);
        if _mm256_testz_si256(beyond, beyond) == 0 {
            let mut out = x;
            for n in 0..N {
                out[n] = exp_anywhere(x[n]);
            }
            return out;
        }
        let (e, shifted) = exp_unscaled(x);
        let mut out = e;
        for n in 0..N {
            // The low bits of `shifted` are the power; those above them leave by the shift.
            let power = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted[n]));
            let scaled = _mm256_add_epi32(_mm256_castps_si256(e[n]), power);
            out[n] = _mm256_castsi256_ps(scaled);
        }
        out
    }
}

/// e^r and `n + MAGIC` with x = r + n · ln 2.
#[inline(always)]
unsafe fn exp_unscaled<const N: usize>(x: Group<N>) -> (Group<N>, Group<N>) {
    // SAFETY: only called where AVX2 and FMA are.
    unsafe {
        let magic = _mm256_set1_ps(math::MAGIC);
        let log2_e = _mm256_set1_ps(std::f32::consts::LOG2_E);
        let (high, low) = (_mm256_set1_ps(-math::LN_2[0]), _mm256_set1_ps(-math::LN_2[1]));
        let mut shifted = x;
        for v in &mut shifted {
            *v = _mm256_fmadd_ps(*v, log2_e, magic);
        }
        together(&mut shifted);
        let mut r = x;
        for part in [high, low] {
            for n in 0..N {
                r[n] = _mm256_fmadd_ps(_mm256_sub_ps(shifted[n], magic), part, r[n]);
            }
            together(&mut r);
        }
        let mut p = [_mm256_set1_ps(math::EXP[4]); N];
        for c in [math::EXP[3], math::EXP[2], math::EXP[1], math::EXP[0], 1.0, 1.0] {
            let c = _mm256_set1_ps(c);
            for n in 0..N {
                p[n] = _mm256_fmadd_ps(p[n], r[n], c);
            }
            together(&mut p);
        }
        (p, shifted)
    }
}

/// [`exp`] where results may be subnormal, 0, infinite or NaN.
#[target_feature(enable = "avx2,fma")]
#[cold]
unsafe fn exp_anywhere(x: V) -> V {
    // SAFETY: only called where AVX2 and FMA are.
    unsafe {
        let (low, high) = (_mm256_set1_ps(-105.0), _mm256_set1_ps(90.0));
        // The second operand comes through where it is NaN.
        let x = _mm256_min_ps(high, _mm256_max_ps(low, x));
        let ([mut e], [shifted]) = exp_unscaled([x]);
        let magic = _mm256_set1_epi32(math::MAGIC.to_bits() as i32);
        let bias = _mm256_set1_epi32(127);
        let whole = _mm256_sub_epi32(_mm256_castps_si256(shifted), magic);
        let half = _mm256_srai_epi32::<1>(whole);
        // In two steps, so that neither power is out of range.
        for part in [half, _mm256_sub_epi32(whole, half)] {
            let power = _mm256_slli_epi32::<23>(_mm256_add_epi32(part, bias));
            e = _mm256_mul_ps(e, _mm256_castsi256_ps(power));
        }
        e
    }
}

/// The first `count` lanes.
#[inline(always)]
unsafe fn mask(count: usize) -> __m256i {
    // SAFETY: only called where AVX2 is.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

/// An operand: a run, or one element in all lanes.
#[derive(Clone, Copy)]
struct In {
    first: *const f32,
    one: V,
}

impl In {
    #[inline(always)]
    unsafe fn at<const ONE: bool>(self, i: usize) -> V {
        // SAFETY: the caller stays within the run.
        if ONE { self.one } else { unsafe { _mm256_loadu_ps(self.first.add(i)) } }
    }
    #[inline(always)]
    unsafe fn last<const ONE: bool>(self, i: usize, mask: __m256i) -> V {
        // SAFETY: the mask has the elements that are left.
        if ONE { self.one } else { unsafe { _mm256_maskload_ps(self.first.add(i), mask) } }
    }
}

struct Call {
    a: In,
    b: In,
    c: In,
    /// Where results go; null for a reduction that keeps none.
    out: *mut f32,
    n: usize,
}

#[inline(always)]
unsafe fn go<
    F: First,
    S: Then,
    R: Reduce,
    const ONE_B: bool,
    const ONE_C: bool,
    const KEEP: bool,
>(
    call: &Call,
) -> f32 {
    let Call { a, b, c, out, n } = *call;
    // SAFETY: as the callers of `chain` and `reduce` promise.
    unsafe {
        let mut totals = [_mm256_set1_ps(R::START); WIDE];
        let mut unordered = [_mm256_setzero_ps(); WIDE];
        let mut i = 0;
        while i + WIDE * LANES <= n {
            let (mut x, mut cs) = (totals, totals);
            for u in 0..WIDE {
                let at = i + u * LANES;
                x[u] = F::apply(a.at::<false>(at), b.at::<ONE_B>(at));
                cs[u] = c.at::<ONE_C>(at);
            }
            let y = S::apply(x, cs);
            for u in 0..WIDE {
                if KEEP {
                    _mm256_storeu_ps(out.add(i + u * LANES), y[u]);
                }
                totals[u] = R::apply(totals[u], y[u]);
                if R::LOSES_NAN && u % 2 == 1 {
                    // Of two vectors at once: unordered if either element is NaN.
                    let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(y[u - 1], y[u]);
                    unordered[u] = _mm256_or_ps(unordered[u], nan);
                }
            }
            i += WIDE * LANES;
        }
        let mut u = 0;
        while i < n {
            let left = mask((n - i).min(LANES));
            let x = F::apply(a.last::<false>(i, left), b.last::<ONE_B>(i, left));
            let [y] = S::apply([x], [c.last::<ONE_C>(i, left)]);
            if KEEP {
                _mm256_maskstore_ps(out.add(i), left, y);
            }
            let y = _mm256_blendv_ps(_mm256_set1_ps(R::START), y, _mm256_castsi256_ps(left));
            totals[u] = R::apply(totals[u], y);
            if R::LOSES_NAN {
                unordered[u] = _mm256_or_ps(unordered[u], _mm256_cmp_ps::<_CMP_UNORD_Q>(y, y));
            }
            i += LANES;
            u += 1;
        }
        if R::LOSES_NAN {
            let any = _mm256_or_ps(
                _mm256_or_ps(unordered[0], unordered[1]),
                _mm256_or_ps(unordered[2], unordered[3]),
            );
            if _mm256_movemask_ps(any) != 0 {
                return f32::NAN;
            }
        }
        let pairs = [R::apply(totals[0], totals[2]), R::apply(totals[1], totals[3])];
        let all = R::apply(pairs[0], pairs[1]);
        let halves = R::apply(all, _mm256_permute2f128_ps::<1>(all, all));
        let quarters = R::apply(halves, _mm256_permute_ps::<0b01_00_11_10>(halves));
        let total = R::apply(quarters, _mm256_permute_ps::<0b10_11_00_01>(quarters));
        _mm256_cvtss_f32(total)
    }
}

macro_rules! entry {
    ($name:ident<$($ty:ident: $bound:ident),*; $($flag:ident),*>, $keep:expr) => {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $name<$($ty: $bound,)* $(const $flag: bool),*>(call: &Call) -> f32 {
            // SAFETY: passed on to the caller.
            unsafe { go::<$($ty,)* $($flag,)* $keep>(call) }
        }
    };
}
entry!(chained<F: First, S: Then, R: Reduce; ONE_B, ONE_C>, true);
entry!(summed<F: First, S: Then, R: Reduce; ONE_B, ONE_C>, false);

#[target_feature(enable = "avx2,fma")]
unsafe fn reduced<R: Reduce>(call: &Call) -> f32 {
    // SAFETY: passed on to the caller.
    unsafe { go::<OnlyA, Nothing, R, true, true, false>(call) }
}

unsafe fn third<F: First, S: Then, const ONE_B: bool, const ONE_C: bool>(
    chain: &Chain,
    call: &Call,
) -> f32 {
    // SAFETY: passed on to the caller.
    unsafe {
        match chain.reduce {
            None => chained::<F, S, NoReduce, ONE_B, ONE_C>(call),
            Some(ReduceOp::Sum) if call.out.is_null() => summed::<F, S, Sum, ONE_B, ONE_C>(call),
            Some(ReduceOp::Sum) => chained::<F, S, Sum, ONE_B, ONE_C>(call),
            Some(_) => chained::<F, S, Max, ONE_B, ONE_C>(call),
        }
    }
}

unsafe fn second<F: First, const ONE_B: bool>(chain: &Chain, call: &Call, one_c: bool) -> f32 {
    // SAFETY: passed on to the caller.
    unsafe {
        match (chain.second, one_c) {
            (Second::None, _) => third::<F, Nothing, ONE_B, true>(chain, call),
            (Second::Exp, _) => third::<F, ThenExp, ONE_B, true>(chain, call),
            (Second::Square, _) => third::<F, ThenSquare, ONE_B, true>(chain, call),
            (Second::Mul, true) => third::<F, ThenMul, ONE_B, true>(chain, call),
            (Second::Mul, false) => third::<F, ThenMul, ONE_B, false>(chain, call),
            (Second::Add, true) => third::<F, ThenAdd, ONE_B, true>(chain, call),
            (Second::Add, false) => third::<F, ThenAdd, ONE_B, false>(chain, call),
        }
    }
}

unsafe fn first<const ONE_B: bool>(chain: &Chain, call: &Call, one_c: bool) -> f32 {
    // SAFETY: passed on to the caller.
    unsafe {
        match chain.first {
            BinaryOp::Add => second::<AddFirst, ONE_B>(chain, call, one_c),
            BinaryOp::Sub => second::<SubFirst, ONE_B>(chain, call, one_c),
            BinaryOp::Mul => second::<MulFirst, ONE_B>(chain, call, one_c),
            // `Chain::exists` leaves nothing else.
            _ => second::<DivFirst, ONE_B>(chain, call, one_c),
        }
    }
}

/// The runs of one call. `one_*`: the operand is a single element.
pub(super) struct Runs {
    pub a: *const f32,
    pub b: *const f32,
    pub one_b: bool,
    pub c: *const f32,
    pub one_c: bool,
    pub out: *mut f32,
    pub n: usize,
}

/// As [`super::chain`].
///
/// # Safety
/// As there, on a machine with AVX2 and FMA.
pub(super) unsafe fn chain(chain: &Chain, runs: &Runs) -> f32 {
    // SAFETY: single elements may be read.
    let input = |first: *const f32, one: bool| unsafe {
        let one = if one { *first } else { 0.0 };
        In { first, one: splat(one) }
    };
    let call = Call {
        a: input(runs.a, false),
        b: input(runs.b, runs.one_b),
        c: input(runs.c, runs.one_c),
        out: runs.out,
        n: runs.n,
    };
    // SAFETY: passed on to the caller.
    unsafe {
        if runs.one_b {
            first::<true>(chain, &call, runs.one_c)
        } else {
            first::<false>(chain, &call, runs.one_c)
        }
    }
}

#[target_feature(enable = "avx")]
unsafe fn splat(x: f32) -> V {
    _mm256_set1_ps(x)
}

/// The sum, the largest or the smallest of a run, NaN if any is; zeros in any order.
///
/// # Safety
/// On a machine with AVX2 and FMA.
pub(crate) unsafe fn reduce(op: ReduceOp, values: &[f32]) -> f32 {
    // SAFETY: the run is valid; no result is kept.
    unsafe {
        let none = In { first: values.as_ptr(), one: splat(0.0) };
        let call = Call { a: none, b: none, c: none, out: std::ptr::null_mut(), n: values.len() };
        match op {
            ReduceOp::Sum => reduced::<Sum>(&call),
            ReduceOp::Max | ReduceOp::ArgMax => reduced::<Max>(&call),
            _ => reduced::<Min>(&call),
        }
    }
}
