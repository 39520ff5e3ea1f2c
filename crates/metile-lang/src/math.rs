//! Functions on each element. Floats of any width go in, `f32` comes out.

use crate::element::{Float, Int, Number};
use crate::pairs::{Arithmetic, max, min};
use crate::tile::{IntoTile, Tile, wide};
use crate::trace::{here, with};
use metile_ir::tile::{OpKind, UnaryOp};

/// A float tile, or a host `f32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a float",
    note = "convert integers with `.to_f32()`"
)]
pub trait IntoF32 {
    /// The values as `f32`.
    fn into_f32(self) -> Tile<f32>;
}
impl<T: Float> IntoF32 for Tile<T> {
    #[track_caller]
    fn into_f32(self) -> Tile<f32> {
        self.to::<f32>()
    }
}
impl IntoF32 for f32 {
    #[track_caller]
    fn into_f32(self) -> Tile<f32> {
        IntoTile::<f32>::into_tile(self)
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(x: impl IntoF32) -> Tile<f32> {
            let at = here();
            let x = x.into_f32();
            Tile::from_raw(with(|t| t.op(at, OpKind::Unary(UnaryOp::$op), &[x.raw], None)))
        }
    )*};
}
functions! {
    /// e^x.
    exp Exp;
    /// 2^x.
    exp2 Exp2;
    /// Natural logarithm; -inf at 0, NaN below.
    log Log;
    /// Logarithm to base 2; -inf at 0, NaN below.
    log2 Log2;
    /// Square root, correctly rounded; NaN below 0.
    sqrt Sqrt;
    /// 1 / √x.
    rsqrt Rsqrt;
    /// Sine of radians.
    sin Sin;
    /// Cosine of radians.
    cos Cos;
    /// Hyperbolic tangent.
    tanh Tanh;
    /// 1 / (1 + e^-x).
    sigmoid Sigmoid;
    /// The error function, 2/√π ∫₀ˣ e^-t² dt.
    erf Erf;
    /// The largest integer not above x.
    floor Floor;
    /// The smallest integer not below x.
    ceil Ceil;
    /// The nearest integer, ties to even.
    round Round;
}

/// The absolute value; `MIN` of a signed integer stays `MIN`.
#[track_caller]
pub fn abs<T: Number>(x: Tile<T>) -> Tile<T::Wide> {
    let at = here();
    Tile::from_raw(with(|t| {
        let x = t.cast(at, x.raw, wide::<T>());
        t.op(at, OpKind::Unary(UnaryOp::Abs), &[x], None)
    }))
}

/// The bits of each integer in reverse order.
#[track_caller]
pub fn reverse_bits<T: Int>(x: Tile<T>) -> Tile<T> {
    let at = here();
    Tile::from_raw(with(|t| t.op(at, OpKind::Unary(UnaryOp::ReverseBits), &[x.raw], None)))
}

/// `a * b + c`, rounded once.
#[track_caller]
pub fn fma(a: impl IntoF32, b: impl IntoF32, c: impl IntoF32) -> Tile<f32> {
    let at = here();
    let mut all = [a.into_f32().raw, b.into_f32().raw, c.into_f32().raw];
    Tile::from_raw(with(|t| match t.broadcast_all(at, "fma", &mut all) {
        Some(_) => t.op(at, OpKind::Fma, &all, None),
        None => t.broken(),
    }))
}

/// `min(max(x, low), high)`: `high` wins where `low` is above it; NaN stays NaN.
#[track_caller]
pub fn clamp<T, L, H>(x: Tile<T>, low: L, high: H) -> Tile<T::Wide>
where
    T: Number,
    Tile<T>: Arithmetic<L, Wide = T::Wide>,
    Tile<T::Wide>: Arithmetic<H, Wide = T::Wide>,
{
    min(max(x, low), high)
}

/// Reading one type as another, as `as` does in Rust: between host numbers, and from tiles.
#[diagnostic::on_unimplemented(message = "`{Self}` can't be converted to `{To}` with `as`")]
pub trait Cast<To> {
    /// The host type, or a tile of it.
    type Out;
    /// The converted value.
    fn cast_to(self) -> Self::Out;
}

impl<T: crate::element::Dtype, U: crate::element::Dtype> Cast<U> for Tile<T> {
    type Out = Tile<U>;
    #[track_caller]
    fn cast_to(self) -> Tile<U> {
        self.to::<U>()
    }
}

macro_rules! host_casts {
    ($($from:ty)*) => {$(
        host_cast!($from => i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64);
    )*};
}
macro_rules! host_cast {
    ($from:ty => $($to:ty)*) => {$(
        impl Cast<$to> for $from {
            type Out = $to;
            fn cast_to(self) -> $to {
                self as $to
            }
        }
    )*};
}
host_casts!(i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64);
host_cast!(bool => i8 u8 i16 u16 i32 u32 i64 u64 isize usize);

/// `value as To`, for host numbers and tiles alike.
#[track_caller]
pub fn cast<To, V: Cast<To>>(value: V) -> V::Out {
    value.cast_to()
}
