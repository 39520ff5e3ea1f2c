//! Reductions, scans and the matrix product.

use crate::element::{Dtype, Float, Number};
use crate::tile::{Tile, wide};
use crate::trace::{At, Raw, Tracer, here, with};
use metile_ir::Scalar;
use metile_ir::tile::{OpKind, ReduceOp, ScanOp, Shape, TileType};

fn axis8(axis: usize) -> u8 {
    u8::try_from(axis).unwrap_or(u8::MAX)
}

/// Reduces every axis: the tile is read as one long row.
fn reduce_all(t: &mut Tracer, at: At, op: ReduceOp, raw: Raw) -> Raw {
    let Some(ty) = t.tile_type(at, raw) else { return t.broken() };
    let row = match ty.shape.rank() {
        1 => raw,
        _ => match t.make_shape(at, &[ty.shape.elements()]) {
            Some(shape) => t.op(at, OpKind::Reshape, &[raw], Some(TileType::new(ty.dtype, shape))),
            None => return t.broken(),
        },
    };
    t.op(at, OpKind::Reduce { op, axis: 0 }, &[row], None)
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $all:ident $along:ident $op:ident $out:ty;)*) => {
        impl<T: Number> Tile<T> {$(
            $(#[$doc])*
            #[doc = "\n\nOver all elements."]
            #[track_caller]
            pub fn $all(self) -> Tile<$out> {
                let at = here();
                Tile::from_raw(with(|t| {
                    let x = t.cast(at, self.raw, wide::<T>());
                    reduce_all(t, at, ReduceOp::$op, x)
                }))
            }
            $(#[$doc])*
            #[doc = "\n\nAlong one axis, which goes away."]
            #[track_caller]
            pub fn $along(self, axis: usize) -> Tile<$out> {
                let at = here();
                Tile::from_raw(with(|t| {
                    let x = t.cast(at, self.raw, wide::<T>());
                    let op = OpKind::Reduce { op: ReduceOp::$op, axis: axis8(axis) };
                    t.op(at, op, &[x], None)
                }))
            }
        )*}
    };
}
reductions! {
    /// The sum; floats accumulate in `f32`, integers wrap.
    sum sum_along Sum T::Wide;
    /// The largest; NaN if any element is.
    max max_along Max T::Wide;
    /// The smallest; NaN if any element is.
    min min_along Min T::Wide;
    /// The index of the first NaN, else of the first of the largest.
    argmax argmax_along ArgMax i64;
    /// The index of the first NaN, else of the first of the smallest.
    argmin argmin_along ArgMin i64;
}

impl Tile<bool> {
    /// Whether any element is true.
    #[track_caller]
    pub fn any(self) -> Tile<bool> {
        let at = here();
        Tile::from_raw(with(|t| reduce_all(t, at, ReduceOp::Any, self.raw)))
    }
    /// Whether all elements are true.
    #[track_caller]
    pub fn all(self) -> Tile<bool> {
        let at = here();
        Tile::from_raw(with(|t| reduce_all(t, at, ReduceOp::All, self.raw)))
    }
    /// Whether any element along `axis` is true.
    #[track_caller]
    pub fn any_along(self, axis: usize) -> Tile<bool> {
        let at = here();
        let op = OpKind::Reduce { op: ReduceOp::Any, axis: axis8(axis) };
        Tile::from_raw(with(|t| t.op(at, op, &[self.raw], None)))
    }
    /// Whether all elements along `axis` are true.
    #[track_caller]
    pub fn all_along(self, axis: usize) -> Tile<bool> {
        let at = here();
        let op = OpKind::Reduce { op: ReduceOp::All, axis: axis8(axis) };
        Tile::from_raw(with(|t| t.op(at, op, &[self.raw], None)))
    }
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl<T: Number> Tile<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, axis: usize) -> Tile<T::Wide> {
                let at = here();
                Tile::from_raw(with(|t| {
                    let x = t.cast(at, self.raw, wide::<T>());
                    let op = OpKind::Scan { op: ScanOp::$op, axis: axis8(axis) };
                    t.op(at, op, &[x], None)
                }))
            }
        )*}
    };
}
scans! {
    /// Running sums along `axis`, each including its own element.
    scan_sum Sum;
    /// Running maxima along `axis`; NaN from the first NaN on.
    scan_max Max;
    /// Running minima along `axis`; NaN from the first NaN on.
    scan_min Min;
}

/// Two dtypes that `dot` multiplies, and what it accumulates in.
#[diagnostic::on_unimplemented(
    message = "`dot` is not defined on `{Self}` and `{B}`",
    note = "it takes f32, f16 and bf16 in any pairing (accumulating in f32), or i8 and i8 (in i32)"
)]
pub trait DotPair<B: Dtype>: Dtype {
    /// The accumulator's dtype.
    type Sum: Number;
}
impl<A: Float, B: Float> DotPair<B> for A {
    type Sum = f32;
}
impl DotPair<i8> for i8 {
    type Sum = i32;
}

/// The matrix product `[m, k] · [k, n] = [m, n]`. Write `dot(a, b.t())` for a transposed operand; no
/// data moves for it. Floats accumulate in `f32`, `i8` in `i32`. Weights loaded from a packed tensor
/// may be an operand as they are.
#[track_caller]
pub fn dot<A: DotPair<B>, B: Dtype>(a: Tile<A>, b: Tile<B>) -> Tile<A::Sum> {
    let at = here();
    Tile::from_raw(with(|t| {
        let dtype = <A::Sum as Dtype>::DTYPE;
        let sides = (t.shape(at, a.raw), t.shape(at, b.raw));
        let (Some(left), Some(right)) = sides else { return t.broken() };
        // A wrong rank is reported by the operation itself.
        let shape = Shape::new(&[left.side(0), right.side(1)]).unwrap_or(Shape::SCALAR);
        let zero = OpKind::Constant(Scalar::zero(dtype));
        let acc = t.op(at, zero, &[], Some(TileType::new(dtype, shape)));
        t.op(at, PLAIN_DOT, &[a.raw, b.raw, acc], None)
    }))
}

/// `acc + a · b`: [`dot`] onto an accumulator of shape `[m, n]`.
#[track_caller]
pub fn dot_add<A: DotPair<B>, B: Dtype>(a: Tile<A>, b: Tile<B>, acc: Tile<A::Sum>) -> Tile<A::Sum> {
    let at = here();
    Tile::from_raw(with(|t| t.op(at, PLAIN_DOT, &[a.raw, b.raw, acc.raw], None)))
}

const PLAIN_DOT: OpKind = OpKind::Dot { transpose_a: false, transpose_b: false };
