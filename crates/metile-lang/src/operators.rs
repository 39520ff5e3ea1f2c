//! Rust's operators on tiles. Operands are stretched to their joint shape; floats widen to `f32`.
//!
//! A literal on either side takes the tile's dtype: `f32` with float tiles, `usize` with `i64`
//! tiles (so that `program_id(0) * BLOCK` reads as it should), the dtype itself elsewhere.

use crate::element::{Dtype, Float, MixesWith, Number};
use crate::tile::{IntoTile, Tile, binary, wide};
use crate::trace::{here, with};
use metile_ir::DType;
use metile_ir::tile::{BinaryOp, OpKind, UnaryOp};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

macro_rules! arithmetic {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<A: Number + MixesWith<B>, B: Number> $trait<Tile<B>> for Tile<A> {
            type Output = Tile<A::Wide>;
            #[track_caller]
            fn $method(self, other: Tile<B>) -> Tile<A::Wide> {
                Tile::from_raw(binary(here(), BinaryOp::$op, wide::<A>(), self.raw, other.raw))
            }
        }
        impl<A: Float> $trait<f32> for Tile<A> {
            type Output = Tile<f32>;
            #[track_caller]
            fn $method(self, other: f32) -> Tile<f32> {
                let other: Tile<f32> = other.into_tile();
                Tile::from_raw(binary(here(), BinaryOp::$op, DType::F32, self.raw, other.raw))
            }
        }
        impl<A: Float> $trait<Tile<A>> for f32 {
            type Output = Tile<f32>;
            #[track_caller]
            fn $method(self, other: Tile<A>) -> Tile<f32> {
                let this: Tile<f32> = self.into_tile();
                Tile::from_raw(binary(here(), BinaryOp::$op, DType::F32, this.raw, other.raw))
            }
        }
        integer_literals!($trait $method $op;
            i8 => i8, u8 => u8, i16 => i16, u16 => u16, i32 => i32, u32 => u32, usize => i64, u64 => u64);
    )*};
}

macro_rules! integer_literals {
    ($trait:ident $method:ident $op:ident; $($host:ty => $tile:ty),*) => {$(
        impl $trait<$host> for Tile<$tile> {
            type Output = Tile<$tile>;
            #[track_caller]
            fn $method(self, other: $host) -> Tile<$tile> {
                let other: Tile<$tile> = other.into_tile();
                Tile::from_raw(binary(here(), BinaryOp::$op, <$tile>::DTYPE, self.raw, other.raw))
            }
        }
        impl $trait<Tile<$tile>> for $host {
            type Output = Tile<$tile>;
            #[track_caller]
            fn $method(self, other: Tile<$tile>) -> Tile<$tile> {
                let this: Tile<$tile> = self.into_tile();
                Tile::from_raw(binary(here(), BinaryOp::$op, <$tile>::DTYPE, this.raw, other.raw))
            }
        }
    )*};
}

arithmetic! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    Rem rem Rem;
}

/// A dtype made of bits: `bool` and the integers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bit operations: only bool and integers have"
)]
pub trait Bits: Dtype {}
macro_rules! bits {
    ($($ty:ty)*) => {$(impl Bits for $ty {})*};
}
bits!(bool i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! bitwise {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<T: Bits> $trait for Tile<T> {
            type Output = Tile<T>;
            #[track_caller]
            fn $method(self, other: Tile<T>) -> Tile<T> {
                Tile::from_raw(binary(here(), BinaryOp::$op, T::DTYPE, self.raw, other.raw))
            }
        }
        integer_literals!($trait $method $op;
            bool => bool, i8 => i8, u8 => u8, i16 => i16, u16 => u16, i32 => i32, u32 => u32,
            usize => i64, u64 => u64);
    )*};
}

bitwise! {
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
}

macro_rules! shifts {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<T: crate::element::Int> $trait for Tile<T> {
            type Output = Tile<T>;
            #[track_caller]
            fn $method(self, amount: Tile<T>) -> Tile<T> {
                Tile::from_raw(binary(here(), BinaryOp::$op, T::DTYPE, self.raw, amount.raw))
            }
        }
        integer_literals!($trait $method $op;
            i8 => i8, u8 => u8, i16 => i16, u16 => u16, i32 => i32, u32 => u32, usize => i64, u64 => u64);
    )*};
}
shifts! {
    Shl shl Shl;
    Shr shr Shr;
}

impl<T: Number> Neg for Tile<T> {
    type Output = Tile<T::Wide>;
    #[track_caller]
    fn neg(self) -> Tile<T::Wide> {
        let at = here();
        Tile::from_raw(with(|t| {
            let wide = t.cast(at, self.raw, wide::<T>());
            t.op(at, OpKind::Unary(UnaryOp::Neg), &[wide], None)
        }))
    }
}

impl<T: Bits> Not for Tile<T> {
    type Output = Tile<T>;
    #[track_caller]
    fn not(self) -> Tile<T> {
        let at = here();
        Tile::from_raw(with(|t| t.op(at, OpKind::Unary(UnaryOp::Not), &[self.raw], None)))
    }
}
