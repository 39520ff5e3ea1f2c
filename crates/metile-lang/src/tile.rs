//! Tiles: the values a program computes with.

use crate::element::{Dtype, Float, Number};
use crate::trace::{At, Raw, here, with};
use metile_ir::tile::{BinaryOp, OpKind, TileType};
use metile_ir::{DType, Scalar};
use std::marker::PhantomData;

/// A block of elements held by one program, or one element: a scalar is a tile of rank 0.
///
/// A `Tile` is a handle to a value of the kernel being traced; copying it copies the handle. Its
/// shape is fixed when it is made, and known while tracing.
pub struct Tile<T: Dtype> {
    pub(crate) raw: Raw,
    _of: PhantomData<fn() -> T>,
}

impl<T: Dtype> Clone for Tile<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Dtype> Copy for Tile<T> {}
impl<T: Dtype> std::fmt::Debug for Tile<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tile<{}>", T::DTYPE)
    }
}

impl<T: Dtype> Tile<T> {
    pub(crate) fn from_raw(raw: Raw) -> Tile<T> {
        Tile { raw, _of: PhantomData }
    }

    /// A scalar that is a constant.
    pub(crate) fn constant(at: At, value: Scalar) -> Tile<T> {
        Tile::from_raw(with(|t| t.constant(at, value)))
    }

    /// The sides, outermost first; empty for a scalar, and for a value that broke a rule.
    #[track_caller]
    pub fn shape(self) -> Vec<usize> {
        let at = here();
        with(|t| t.shape(at, self.raw)).map(|s| s.sides()).unwrap_or_default()
    }

    /// The values converted to `U`: to floats nearest, ties to even; from floats to integers towards
    /// zero, saturating, NaN to 0; between integers wrapping; to `bool` whether not zero.
    #[track_caller]
    pub fn to<U: Dtype>(self) -> Tile<U> {
        let at = here();
        Tile::from_raw(with(|t| t.cast(at, self.raw, U::DTYPE)))
    }

    /// The values as `f32`.
    #[track_caller]
    pub fn to_f32(self) -> Tile<f32> {
        self.to::<f32>()
    }

    /// The same bits read as `U`, which is as wide; neither is `bool`.
    #[track_caller]
    pub fn bitcast<U: Dtype>(self) -> Tile<U> {
        let at = here();
        Tile::from_raw(with(|t| match t.shape(at, self.raw) {
            Some(shape) => {
                t.op(at, OpKind::Bitcast, &[self.raw], Some(TileType::new(U::DTYPE, shape)))
            }
            None => t.broken(),
        }))
    }
}

/// A value that can stand where a tile of `T` is wanted: a tile, or a host value that becomes a
/// constant. A host `f32` becomes the nearest value of any float dtype.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't stand where a tile of `{T}` is wanted",
    note = "convert a tile with `.to::<{T}>()`; an integer literal fits every integer tile, a float literal every float tile"
)]
pub trait IntoTile<T: Dtype>: Sized {
    /// The tile; a scalar for a host value.
    fn into_tile(self) -> Tile<T>;
}

impl<T: Dtype> IntoTile<T> for Tile<T> {
    fn into_tile(self) -> Tile<T> {
        self
    }
}

impl<T: Float> IntoTile<T> for f32 {
    #[track_caller]
    fn into_tile(self) -> Tile<T> {
        Tile::constant(here(), T::nearest(self).scalar())
    }
}

macro_rules! host_into_tile {
    ($($host:ty => $($tile:ty)*;)*) => {$($(
        impl IntoTile<$tile> for $host {
            #[track_caller]
            fn into_tile(self) -> Tile<$tile> {
                Tile::constant(here(), Scalar::int(<$tile>::DTYPE, self as i128))
            }
        }
    )*)*};
}
// An `i32` stands for every integer because an integer literal without other evidence is one.
host_into_tile! {
    i32 => i8 u8 i16 u16 i32 u32 i64 u64;
    usize => i64;
    i8 => i8; u8 => u8; i16 => i16; u16 => u16; u32 => u32; i64 => i64; u64 => u64;
}

macro_rules! own_into_tile {
    ($($ty:ty)*) => {$(
        impl IntoTile<$ty> for $ty {
            #[track_caller]
            fn into_tile(self) -> Tile<$ty> {
                Tile::constant(here(), self.scalar())
            }
        }
    )*};
}
own_into_tile!(bool half::f16 half::bf16);

/// A host value whose own type says which scalar it becomes: `usize` and unsuffixed variables'
/// literals become `i64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of the language",
    note = "a variable of a kernel holds tiles and scalars, or tuples and arrays of them"
)]
pub trait Lift {
    /// The traced type.
    type Out;
    /// The traced value.
    fn lift(self) -> Self::Out;
}

impl<T: Dtype> Lift for Tile<T> {
    type Out = Tile<T>;
    fn lift(self) -> Tile<T> {
        self
    }
}

macro_rules! lift_host {
    ($($host:ty => $tile:ty;)*) => {$(
        impl Lift for $host {
            type Out = Tile<$tile>;
            #[track_caller]
            fn lift(self) -> Tile<$tile> {
                IntoTile::<$tile>::into_tile(self)
            }
        }
    )*};
}
lift_host! {
    bool => bool; i8 => i8; u8 => u8; i16 => i16; u16 => u16; i32 => i32; u32 => u32; i64 => i64;
    u64 => u64; f32 => f32; half::f16 => half::f16; half::bf16 => half::bf16; usize => i64;
}

/// A scalar constant, as in `scalar(-1i64)`.
#[track_caller]
pub fn scalar<V: Lift>(value: V) -> V::Out {
    value.lift()
}

/// The tile of shape `shape` filled with `value`, a scalar.
#[track_caller]
pub fn full<T: Dtype, const R: usize>(shape: [usize; R], value: impl IntoTile<T>) -> Tile<T> {
    let at = here();
    let value = value.into_tile();
    Tile::from_raw(with(|t| match t.make_shape(at, &shape) {
        Some(shape) => t.broadcast(at, value.raw, shape),
        None => t.broken(),
    }))
}

/// The tile of shape `shape` filled with 0 (or false).
#[track_caller]
pub fn zeros<T: Dtype, const R: usize>(shape: [usize; R]) -> Tile<T> {
    let at = here();
    Tile::from_raw(with(|t| match t.make_shape(at, &shape) {
        Some(shape) => {
            let ty = TileType::new(T::DTYPE, shape);
            t.op(at, OpKind::Constant(Scalar::zero(T::DTYPE)), &[], Some(ty))
        }
        None => t.broken(),
    }))
}

/// 0, 1, …, `n` − 1 as `i64[n]`.
#[track_caller]
pub fn arange(n: usize) -> Tile<i64> {
    let at = here();
    Tile::from_raw(with(|t| match t.make_shape(at, &[n]) {
        Some(shape) => t.op(at, OpKind::Arange, &[], Some(TileType::new(DType::I64, shape))),
        None => t.broken(),
    }))
}

/// This program's position on grid axis 0, 1 or 2.
#[track_caller]
pub fn program_id(axis: usize) -> Tile<i64> {
    let at = here();
    let axis = u8::try_from(axis).unwrap_or(u8::MAX);
    Tile::from_raw(with(|t| t.op(at, OpKind::ProgramId(axis), &[], None)))
}

/// The grid's extent on axis 0, 1 or 2.
#[track_caller]
pub fn num_programs(axis: usize) -> Tile<i64> {
    let at = here();
    let axis = u8::try_from(axis).unwrap_or(u8::MAX);
    Tile::from_raw(with(|t| t.op(at, OpKind::NumPrograms(axis), &[], None)))
}

/// `op` on two values, stretched to their joint shape and widened to `dtype`.
pub(crate) fn binary(at: At, op: BinaryOp, dtype: DType, a: Raw, b: Raw) -> Raw {
    with(|t| {
        let mut both = [t.cast(at, a, dtype), t.cast(at, b, dtype)];
        match t.broadcast_all(at, metile_ir::tile::infer::op_name(&OpKind::Binary(op)), &mut both) {
            Some(_) => t.op(at, OpKind::Binary(op), &both, None),
            None => t.broken(),
        }
    })
}

/// The dtype arithmetic on `T` gives.
pub(crate) fn wide<T: Number>() -> DType {
    <T::Wide as Dtype>::DTYPE
}
