//! Reductions along the last axis. For another axis exchange it with the last by `swap_axes`.

use metile::KernelCall;
use metile::prelude::*;

/// A reduction of a row to one number.
pub trait Reduction: 'static {
    /// What reducing nothing gives, and what lanes beyond a row hold.
    const EMPTY: f32;
    /// Of all elements of a tile.
    fn all(x: Tile<f32>) -> Tile<f32>;
    /// Of each row of a tile.
    fn rows(x: Tile<f32>) -> Tile<f32>;
    /// Of two parts.
    fn join(a: Tile<f32>, b: Tile<f32>) -> Tile<f32>;
    /// The result, from what the `n` elements of a row came to.
    #[track_caller]
    fn finish(x: Tile<f32>, _n: Tile<f32>) -> Tile<f32> {
        x
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $empty:expr, $all:ident $rows:ident, $a:ident $b:ident => $join:expr
        $(, $x:ident $n:ident => $finish:expr)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Reduction for $name {
            const EMPTY: f32 = $empty;
            #[track_caller]
            fn all(x: Tile<f32>) -> Tile<f32> {
                x.$all()
            }
            #[track_caller]
            fn rows(x: Tile<f32>) -> Tile<f32> {
                x.$rows(1)
            }
            #[track_caller]
            fn join($a: Tile<f32>, $b: Tile<f32>) -> Tile<f32> {
                $join
            }
            $(#[track_caller]
            fn finish($x: Tile<f32>, $n: Tile<f32>) -> Tile<f32> {
                $finish
            })?
        }
    )*};
}
reductions! {
    /// The sum, in f32; 0 of nothing.
    Sum 0.0, sum sum_along, a b => a + b;
    /// The mean; NaN of nothing.
    Mean 0.0, sum sum_along, a b => a + b, x n => x / n;
    /// The largest element, NaN if there is one; −inf of nothing.
    Maximum f32::NEG_INFINITY, max max_along, a b => max(a, b);
    /// The smallest element, NaN if there is one; +inf of nothing.
    Minimum f32::INFINITY, min min_along, a b => min(a, b);
}

/// out[r] = F(x[r, :]), computed in f32 and rounded once.
///
/// `x`: [rows, cols]; `out`: [rows]. One program per row, BLOCK columns at a time.
#[kernel]
pub fn reduce_row<T: Float, O: Float, F: Reduction, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    out: &mut Tensor<O, 1>,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    assert!(out.dim(0) == x.dim(0), "out has an element for each row of x");
    let mut acc = F::EMPTY;
    for start in tiles(cols, BLOCK) {
        let v = x.load_or((row, start + arange(BLOCK)), F::EMPTY).to_f32();
        acc = F::join(acc, F::all(v));
    }
    out.store(row, F::finish(acc, cols.to_f32()));
}

/// [`reduce_row`] for ROWS narrow rows of at most BLOCK columns a program.
#[kernel]
pub fn reduce_rows<T: Float, O: Float, F: Reduction, const ROWS: usize, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    out: &mut Tensor<O, 1>,
) {
    let first = program_id(0) * ROWS;
    assert!(
        x.dim(1) <= BLOCK && out.dim(0) == x.dim(0),
        "out has an element for each row of x, and a row fits a tile"
    );
    let v = x.load_tile_or((first, 0), [ROWS, BLOCK], F::EMPTY).to_f32();
    out.store(first + arange(ROWS), F::finish(F::rows(v), x.dim(1).to_f32()));
}

/// out[r] = F(x[r, :]), as in `reduce::<_, _, Sum>(&x, &mut out)`: see [`reduce_row`].
pub fn reduce<'c, T: Float, O: Float, F: Reduction>(
    x: &'c Tensor<T, 2>,
    out: &'c mut Tensor<O, 1>,
) -> KernelCall<'c> {
    let [rows, cols] = x.shape();
    match cols {
        0..=256 if rows >= 8 => reduce_rows::<T, O, F, 64, 256>(x, out).grid(rows.div_ceil(64)),
        0..=256 => reduce_row::<T, O, F, 256>(x, out).grid(rows),
        _ => reduce_row::<T, O, F, 4096>(x, out).grid(rows),
    }
}

macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident $reduction:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<'c, T: Float, O: Float>(
            x: &'c Tensor<T, 2>,
            out: &'c mut Tensor<O, 1>,
        ) -> KernelCall<'c> {
            reduce::<T, O, $reduction>(x, out)
        }
    )*};
}
entries! {
    /// Each row's sum: see [`Sum`].
    sum Sum;
    /// Each row's mean: see [`Mean`].
    mean Mean;
    /// Each row's largest element: see [`Maximum`].
    maximum Maximum;
    /// Each row's smallest element: see [`Minimum`].
    minimum Minimum;
}
