//! Which two values may stand side by side: a literal takes the other side's dtype.

use crate::element::{Dtype, Float, MixesWith, Number};
use crate::tile::{IntoTile, Tile, wide};
use crate::trace::{Raw, here, with};
use metile_ir::DType;
use metile_ir::tile::{BinaryOp, CompareOp, OpKind};

/// Two numbers that arithmetic may combine: tiles that widen alike, or a tile and a literal.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{B}` can't be combined",
    note = "both sides need one dtype (f16, bf16 and f32 mix): convert one with `.to::<…>()`; beside i64 tiles a host value is a usize, or `scalar(x)` of an i64"
)]
pub trait Arithmetic<B> {
    /// The dtype both sides widen to.
    type Wide: Number;
    /// Both sides, not yet widened or stretched.
    #[doc(hidden)]
    fn sides(self, other: B) -> Sides;
}

/// Two values of one dtype: tiles, or a tile and a literal.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{B}` are not of one dtype",
    note = "convert one side with `.to::<…>()`; beside i64 tiles a host value is a usize, or `scalar(x)` of an i64"
)]
pub trait SameDtype<B> {
    /// The dtype.
    type Dtype: Dtype;
    /// Both sides, not yet stretched.
    #[doc(hidden)]
    fn same_sides(self, other: B) -> Sides;
}

/// Two recorded values.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Sides(pub(crate) Raw, pub(crate) Raw);

impl<A: Number + MixesWith<B>, B: Number> Arithmetic<Tile<B>> for Tile<A> {
    type Wide = A::Wide;
    fn sides(self, other: Tile<B>) -> Sides {
        Sides(self.raw, other.raw)
    }
}

impl<T: Dtype> SameDtype<Tile<T>> for Tile<T> {
    type Dtype = T;
    fn same_sides(self, other: Tile<T>) -> Sides {
        Sides(self.raw, other.raw)
    }
}

impl<T: Float> Arithmetic<f32> for Tile<T> {
    type Wide = f32;
    #[track_caller]
    fn sides(self, other: f32) -> Sides {
        Sides(self.raw, IntoTile::<f32>::into_tile(other).raw)
    }
}

impl<T: Float> Arithmetic<Tile<T>> for f32 {
    type Wide = f32;
    #[track_caller]
    fn sides(self, other: Tile<T>) -> Sides {
        Sides(IntoTile::<f32>::into_tile(self).raw, other.raw)
    }
}

impl<T: Float> SameDtype<f32> for Tile<T> {
    type Dtype = T;
    #[track_caller]
    fn same_sides(self, other: f32) -> Sides {
        Sides(self.raw, IntoTile::<T>::into_tile(other).raw)
    }
}

impl<T: Float> SameDtype<Tile<T>> for f32 {
    type Dtype = T;
    #[track_caller]
    fn same_sides(self, other: Tile<T>) -> Sides {
        Sides(IntoTile::<T>::into_tile(self).raw, other.raw)
    }
}

impl SameDtype<f32> for f32 {
    type Dtype = f32;
    #[track_caller]
    fn same_sides(self, other: f32) -> Sides {
        Sides(IntoTile::<f32>::into_tile(self).raw, IntoTile::<f32>::into_tile(other).raw)
    }
}

macro_rules! integer_sides {
    ($($host:ty => $tile:ty;)*) => {$(
        impl Arithmetic<$host> for Tile<$tile> {
            type Wide = $tile;
            #[track_caller]
            fn sides(self, other: $host) -> Sides {
                Sides(self.raw, IntoTile::<$tile>::into_tile(other).raw)
            }
        }
        impl Arithmetic<Tile<$tile>> for $host {
            type Wide = $tile;
            #[track_caller]
            fn sides(self, other: Tile<$tile>) -> Sides {
                Sides(IntoTile::<$tile>::into_tile(self).raw, other.raw)
            }
        }
        same_host!($host => $tile);
    )*};
}
macro_rules! same_host {
    ($host:ty => $tile:ty) => {
        impl SameDtype<$host> for Tile<$tile> {
            type Dtype = $tile;
            #[track_caller]
            fn same_sides(self, other: $host) -> Sides {
                Sides(self.raw, IntoTile::<$tile>::into_tile(other).raw)
            }
        }
        impl SameDtype<Tile<$tile>> for $host {
            type Dtype = $tile;
            #[track_caller]
            fn same_sides(self, other: Tile<$tile>) -> Sides {
                Sides(IntoTile::<$tile>::into_tile(self).raw, other.raw)
            }
        }
        impl SameDtype<$host> for $host {
            type Dtype = $tile;
            #[track_caller]
            fn same_sides(self, other: $host) -> Sides {
                Sides(
                    IntoTile::<$tile>::into_tile(self).raw,
                    IntoTile::<$tile>::into_tile(other).raw,
                )
            }
        }
    };
}
integer_sides! {
    i8 => i8; u8 => u8; i16 => i16; u16 => u16; i32 => i32; u32 => u32; usize => i64; u64 => u64;
}
same_host!(bool => bool);

/// Two values that can be compared: both on the host, or at least one traced.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{B}` can't be compared in a kernel",
    note = "both sides need one dtype (f16, bf16 and f32 mix): convert one with `.to::<…>()`; beside i64 tiles a host value is a usize, or `scalar(x)` of an i64"
)]
pub trait Compare<B> {
    /// `bool` on the host, `Tile<bool>` traced.
    type Out;
    /// The comparison.
    #[doc(hidden)]
    fn compare(self, op: CompareOp, other: B) -> Self::Out;
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<A: Compare<B>, B>(a: A, b: B) -> A::Out {
            a.compare(CompareOp::$op, b)
        }
    )*};
}
comparisons! {
    /// `a < b`.
    lt Lt;
    /// `a <= b`.
    le Le;
    /// `a > b`.
    gt Gt;
    /// `a >= b`.
    ge Ge;
    /// `a == b`.
    eq Eq;
    /// `a != b`.
    ne Ne;
}

#[track_caller]
fn record(op: CompareOp, dtype: DType, sides: Sides) -> Tile<bool> {
    let at = here();
    Tile::from_raw(with(|t| {
        let mut both = [t.cast(at, sides.0, dtype), t.cast(at, sides.1, dtype)];
        match t.broadcast_all(at, "comparison", &mut both) {
            Some(_) => t.op(at, OpKind::Compare(op), &both, None),
            None => t.broken(),
        }
    }))
}

impl<A: Number + MixesWith<B>, B: Number> Compare<Tile<B>> for Tile<A> {
    type Out = Tile<bool>;
    #[track_caller]
    fn compare(self, op: CompareOp, other: Tile<B>) -> Tile<bool> {
        record(op, wide::<A>(), self.sides(other))
    }
}

impl Compare<Tile<bool>> for Tile<bool> {
    type Out = Tile<bool>;
    #[track_caller]
    fn compare(self, op: CompareOp, other: Tile<bool>) -> Tile<bool> {
        record(op, DType::Bool, Sides(self.raw, other.raw))
    }
}

impl<T: Float> Compare<f32> for Tile<T> {
    type Out = Tile<bool>;
    #[track_caller]
    fn compare(self, op: CompareOp, other: f32) -> Tile<bool> {
        record(op, DType::F32, self.sides(other))
    }
}

impl<T: Float> Compare<Tile<T>> for f32 {
    type Out = Tile<bool>;
    #[track_caller]
    fn compare(self, op: CompareOp, other: Tile<T>) -> Tile<bool> {
        record(op, DType::F32, self.sides(other))
    }
}

macro_rules! compare_host {
    ($($host:ty => $tile:ty;)*) => {$(
        impl Compare<$host> for Tile<$tile> {
            type Out = Tile<bool>;
            #[track_caller]
            fn compare(self, op: CompareOp, other: $host) -> Tile<bool> {
                record(op, <$tile>::DTYPE, self.same_sides(other))
            }
        }
        impl Compare<Tile<$tile>> for $host {
            type Out = Tile<bool>;
            #[track_caller]
            fn compare(self, op: CompareOp, other: Tile<$tile>) -> Tile<bool> {
                record(op, <$tile>::DTYPE, self.same_sides(other))
            }
        }
    )*};
}
compare_host! {
    bool => bool; i8 => i8; u8 => u8; i16 => i16; u16 => u16; i32 => i32; u32 => u32; usize => i64;
    u64 => u64;
}

macro_rules! host_compare {
    ($($ty:ty)*) => {$(
        impl Compare<$ty> for $ty {
            type Out = bool;
            fn compare(self, op: CompareOp, other: $ty) -> bool {
                match op {
                    CompareOp::Eq => self == other,
                    CompareOp::Ne => self != other,
                    CompareOp::Lt => self < other,
                    CompareOp::Le => self <= other,
                    CompareOp::Gt => self > other,
                    CompareOp::Ge => self >= other,
                }
            }
        }
    )*};
}
host_compare!(bool i8 u8 i16 u16 i32 u32 i64 u64 isize usize f32 f64 &str);

/// The larger element by element; NaN if either is, and +0 above -0.
#[track_caller]
pub fn max<A: Arithmetic<B>, B>(a: A, b: B) -> Tile<A::Wide> {
    let Sides(a, b) = a.sides(b);
    Tile::from_raw(crate::tile::binary(here(), BinaryOp::Max, A::Wide::DTYPE, a, b))
}

/// The smaller element by element; NaN if either is, and -0 below +0.
#[track_caller]
pub fn min<A: Arithmetic<B>, B>(a: A, b: B) -> Tile<A::Wide> {
    let Sides(a, b) = a.sides(b);
    Tile::from_raw(crate::tile::binary(here(), BinaryOp::Min, A::Wide::DTYPE, a, b))
}

/// `a` where `condition`, else `b`; both sides are evaluated.
#[track_caller]
pub fn select<A: SameDtype<B>, B>(condition: impl IntoTile<bool>, a: A, b: B) -> Tile<A::Dtype> {
    let at = here();
    let condition = condition.into_tile();
    let Sides(a, b) = a.same_sides(b);
    Tile::from_raw(with(|t| {
        let mut all = [condition.raw, a, b];
        match t.broadcast_all(at, "select", &mut all) {
            Some(_) => t.op(at, OpKind::Select, &all, None),
            None => t.broken(),
        }
    }))
}
