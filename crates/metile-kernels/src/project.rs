//! Products with weight matrices: out = x · wᵀ, with the weights dense or packed.
//!
//! Activations are `f32`, or `Q8_0` blocks made by [`quantize_q8`](crate::quantize::quantize_q8), or of the weights' own 16-bit type: the
//! `_matched` forms, for GPUs whose matrix units multiply such.

use crate::activation::silu;
use crate::machine::Machine;
use crate::shapes::projects;
use metile::KernelCall;
use metile::ir::{DType, Format};
use metile::prelude::*;

/// Rows `row..row + BM` of `x` by rows `col..col + BN` of `w`, over all of their columns.
#[kernel_fn]
fn rows_by_rows<A: Weight, W: Weight, const BM: usize, const BN: usize, const BK: usize>(
    x: &Tensor<A, 2>,
    w: &Tensor<W, 2>,
    row: i64,
    col: i64,
) -> Tile<f32> {
    let mut acc = zeros::<f32, 2>([BM, BN]);
    for k in tiles(x.dim(1), BK) {
        let left = x.load_tile((row, k), [BM, BK]);
        let right = w.load_tile((col, k), [BN, BK]);
        if BK <= 32 {
            // Sums of short steps, then their sum: a single long chain would be off by several times as much.
            acc = acc + dot(left.to_f32(), right.to_f32().t());
        } else if BK == MATCHED {
            acc = dot_add(left, right.t(), acc);
        } else {
            acc = dot_add(left.to_f32(), right.to_f32().t(), acc);
        }
    }
    acc
}

/// Columns of a step of the `_matched` forms, whose 16-bit operands meet as they are.
const MATCHED: usize = 64;

/// Two products of the same rows, as [`rows_by_rows`] computes each.
#[kernel_fn]
fn rows_by_two<A: Weight, W: Weight, const BM: usize, const BN: usize, const BK: usize>(
    x: &Tensor<A, 2>,
    first: &Tensor<W, 2>,
    second: &Tensor<W, 2>,
    row: i64,
    col: i64,
) -> (Tile<f32>, Tile<f32>) {
    if BK == MATCHED {
        let mut sums = (zeros::<f32, 2>([BM, BN]), zeros::<f32, 2>([BM, BN]));
        for k in tiles(x.dim(1), BK) {
            let left = x.load_tile((row, k), [BM, BK]);
            let (a, b) =
                (first.load_tile((col, k), [BN, BK]), second.load_tile((col, k), [BN, BK]));
            sums = (dot_add(left, a.t(), sums.0), dot_add(left, b.t(), sums.1));
        }
        sums
    } else {
        (
            rows_by_rows::<A, W, BM, BN, BK>(x, first, row, col),
            rows_by_rows::<A, W, BM, BN, BK>(x, second, row, col),
        )
    }
}

/// out = x · wᵀ.
///
/// `x`: [rows, k]; `w`: [n, k], dense or packed; `out`: [rows, n]. Over k = 0 the product is 0. One program per
/// BN columns and BM rows of `out`.
#[kernel]
pub fn project_tiles<A: Weight, W: Weight, const BM: usize, const BN: usize, const BK: usize>(
    x: &Tensor<A, 2>,
    w: &Tensor<W, 2>,
    out: &mut Tensor<f32, 2>,
) {
    assert!(projects(x, w, out), "x is [rows, k], w is [n, k], out is [rows, n]");
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    out.store_tile((row, col), rows_by_rows::<A, W, BM, BN, BK>(x, w, row, col));
}

/// out = x · wᵀ + bias. `bias`: [n]; else as [`project_tiles`].
#[kernel]
pub fn project_bias_tiles<
    A: Weight,
    W: Weight,
    B: Float,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    x: &Tensor<A, 2>,
    w: &Tensor<W, 2>,
    bias: &Tensor<B, 1>,
    out: &mut Tensor<f32, 2>,
) {
    assert!(
        projects(x, w, out) && bias.dim(0) == out.dim(1),
        "x is [rows, k], w is [n, k], bias is [n], out is [rows, n]"
    );
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    let product = rows_by_rows::<A, W, BM, BN, BK>(x, w, row, col);
    out.store_tile((row, col), product + bias.load(col + arange(BN)).expand(0));
}

/// out += x · wᵀ; else as [`project_tiles`].
#[kernel]
pub fn project_add_tiles<
    A: Weight,
    W: Weight,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    x: &Tensor<A, 2>,
    w: &Tensor<W, 2>,
    out: &mut Tensor<f32, 2>,
) {
    assert!(projects(x, w, out), "x is [rows, k], w is [n, k], out is [rows, n]");
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    let product = rows_by_rows::<A, W, BM, BN, BK>(x, w, row, col);
    out.store_tile((row, col), out.load_tile((row, col), [BM, BN]) + product);
}

/// out = silu(x · gateᵀ) · (x · upᵀ), element by element (SwiGLU; Shazeer, 2020).
///
/// `gate`, `up`: [n, k]; else as [`project_tiles`].
#[kernel]
pub fn project_swiglu_tiles<
    A: Weight,
    W: Weight,
    const BM: usize,
    const BN: usize,
    const BK: usize,
>(
    x: &Tensor<A, 2>,
    gate: &Tensor<W, 2>,
    up: &Tensor<W, 2>,
    out: &mut Tensor<f32, 2>,
) {
    assert!(
        projects(x, gate, out) && projects(x, up, out),
        "x is [rows, k], gate and up are [n, k], out is [rows, n]"
    );
    let (row, col) = (program_id(1) * BM, program_id(0) * BN);
    let (gated, linear) = rows_by_two::<A, W, BM, BN, BK>(x, gate, up, row, col);
    out.store_tile((row, col), silu(gated) * linear);
}

/// The sides of the tiles: rows of x, rows of w, columns of both.
type Sides = (usize, usize, usize);

/// Multiprocessors of a large GPU: with fewer programs some have no work.
const PROCESSORS: usize = 128;

/// The sides for GPUs: one row meets few weight rows at a time, since a block's registers hold them, and the fewer, the fewer there are.
fn gpu_sides(rows: usize, n: usize, k: usize) -> Sides {
    match rows {
        0..=16 if k <= 256 => (16, 32, 256),
        0..=1 if n <= 4096 && k > 1024 => (1, 4, 2048),
        0..=1 if n <= 4096 => (1, 8, 1024),
        0..=1 => (1, 16, 512),
        2..=16 => (16, 32, 256),
        _ if rows.div_ceil(128) * n.div_ceil(128) < PROCESSORS => (64, 128, 32),
        _ => (128, 128, 32),
    }
}

/// Weight rows from which on one row of x is multiplied by many of them a program: there are enough programs
/// for all processors, and what each costs besides its work is shared by more rows.
const WIDE: usize = 8192;

/// The sides for CPUs. One row: programs of 32 weight rows, so that even a narrow projection is shared out
/// evenly. Up to 16 rows are one tile, of which only the rows that exist are computed. More rows share
/// weights that each program packs or decodes once; but for bfloat16, whose products are summed in one order however many
/// rows there are, so that a row's results do not depend on those beside it. Few instances: each is compiled for every format.
fn sides<W: Weight>(machine: Machine, rows: usize, n: usize, k: usize) -> Sides {
    if machine == Machine::Gpu {
        return gpu_sides(rows, n, k);
    }
    let bf16 = W::FORMAT == Format::Plain(DType::BF16);
    match rows {
        0..=1 if n >= WIDE => (1, 128, 2048),
        0..=16 if k <= 256 => (16, 32, 256),
        0..=1 => (1, 32, 2048),
        2..=16 => (16, 64, 2048),
        _ if bf16 => (16, 64, 2048),
        _ if k <= 256 => (64, 64, 256),
        _ => (256, 192, 512),
    }
}

/// Calls the instance of a kernel with the sides [`sides`] gives.
macro_rules! with_sides {
    ($sides:expr, $rows:expr, $n:expr, $kernel:ident<$($ty:ident),*>($($argument:expr),*)) => {
        with_sides!(@ $sides, $rows, $n, $kernel, ($($ty),*), ($($argument),*),
            [
                (1, 32, 2048) (1, 128, 2048) (16, 32, 256) (16, 64, 2048) (64, 64, 256) (1, 16, 512)
                (1, 8, 1024) (1, 4, 2048) (64, 128, 32) (128, 128, 32)
            ],
            (256, 192, 512))
    };
    (@ $sides:expr, $rows:expr, $n:expr, $kernel:ident, $types:tt, $arguments:tt,
     [$($each:tt)*], $last:tt) => {
        match $sides {
            $($each => with_sides!(! $kernel, $rows, $n, $types, $arguments, $each),)*
            _ => with_sides!(! $kernel, $rows, $n, $types, $arguments, $last),
        }
    };
    (! $kernel:ident, $rows:expr, $n:expr, ($($ty:ident),*), ($($argument:expr),*),
     ($bm:literal, $bn:literal, $bk:literal)) => {
        $kernel::<$($ty,)* $bm, $bn, $bk>($($argument),*)
            .grid(($n.div_ceil($bn), $rows.div_ceil($bm)))
    };
}

/// out = x · wᵀ: see [`project_tiles`].
pub fn project<'c, A: Weight, W: Weight>(
    x: &'c Tensor<A, 2>,
    w: &'c Tensor<W, 2>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let ([rows, n], [_, k]) = (out.shape(), w.shape());
    with_sides!(sides::<W>(Machine::of(x), rows, n, k), rows, n, project_tiles < A, W > (x, w, out))
}

/// out = x · wᵀ + bias: see [`project_bias_tiles`].
pub fn project_bias<'c, A: Weight, W: Weight, B: Float>(
    x: &'c Tensor<A, 2>,
    w: &'c Tensor<W, 2>,
    bias: &'c Tensor<B, 1>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let ([rows, n], [_, k]) = (out.shape(), w.shape());
    with_sides!(
        sides::<W>(Machine::of(x), rows, n, k),
        rows,
        n,
        project_bias_tiles < A,
        W,
        B > (x, w, bias, out)
    )
}

/// out += x · wᵀ: see [`project_add_tiles`].
pub fn project_add<'c, A: Weight, W: Weight>(
    x: &'c Tensor<A, 2>,
    w: &'c Tensor<W, 2>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let ([rows, n], [_, k]) = (out.shape(), w.shape());
    with_sides!(
        sides::<W>(Machine::of(x), rows, n, k),
        rows,
        n,
        project_add_tiles < A,
        W > (x, w, out)
    )
}

/// out = silu(x · gateᵀ) · (x · upᵀ): see [`project_swiglu_tiles`].
pub fn project_swiglu<'c, A: Weight, W: Weight>(
    x: &'c Tensor<A, 2>,
    gate: &'c Tensor<W, 2>,
    up: &'c Tensor<W, 2>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let ([rows, n], [_, k]) = (out.shape(), gate.shape());
    with_sides!(
        sides::<W>(Machine::of(x), rows, n, k),
        rows,
        n,
        project_swiglu_tiles < A,
        W > (x, gate, up, out)
    )
}

/// Calls the instance of a kernel with the sides for rows and weights of one 16-bit type, of BN columns at most.
macro_rules! matched {
    ($rows:expr, $n:expr, $bn:literal, $kernel:ident<$($ty:ident),*>($($argument:expr),*)) => {
        match $rows.div_ceil(128) * $n.div_ceil($bn) < PROCESSORS {
            true => $kernel::<$($ty,)* 64, $bn, MATCHED>($($argument),*)
                .grid(($n.div_ceil($bn), $rows.div_ceil(64))),
            false => $kernel::<$($ty,)* 128, $bn, MATCHED>($($argument),*)
                .grid(($n.div_ceil($bn), $rows.div_ceil(128))),
        }
    };
}

/// out = x · wᵀ for tens of rows and more of the weights' own 16-bit type: see [`project_tiles`].
pub fn project_matched<'c, T: Float + Weight>(
    x: &'c Tensor<T, 2>,
    w: &'c Tensor<T, 2>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let [rows, n] = out.shape();
    matched!(rows, n, 128, project_tiles < T, T > (x, w, out))
}

/// out = x · wᵀ + bias for rows of the weights' own 16-bit type: see [`project_bias_tiles`].
pub fn project_bias_matched<'c, T: Float + Weight, B: Float>(
    x: &'c Tensor<T, 2>,
    w: &'c Tensor<T, 2>,
    bias: &'c Tensor<B, 1>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let [rows, n] = out.shape();
    matched!(rows, n, 128, project_bias_tiles < T, T, B > (x, w, bias, out))
}

/// out += x · wᵀ for rows of the weights' own 16-bit type: see [`project_add_tiles`].
pub fn project_add_matched<'c, T: Float + Weight>(
    x: &'c Tensor<T, 2>,
    w: &'c Tensor<T, 2>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let [rows, n] = out.shape();
    matched!(rows, n, 128, project_add_tiles < T, T > (x, w, out))
}

/// out = silu(x · gateᵀ) · (x · upᵀ) for rows of the weights' own 16-bit type: see [`project_swiglu_tiles`].
pub fn project_swiglu_matched<'c, T: Float + Weight>(
    x: &'c Tensor<T, 2>,
    gate: &'c Tensor<T, 2>,
    up: &'c Tensor<T, 2>,
    out: &'c mut Tensor<f32, 2>,
) -> KernelCall<'c> {
    let [rows, n] = out.shape();
    matched!(rows, n, 64, project_swiglu_tiles < T, T > (x, gate, up, out))
}
