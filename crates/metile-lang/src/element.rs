//! Element types of the language as Rust types: dtypes, and packed weight formats.

use half::{bf16, f16};
use metile_ir::dtype::{Affine, AffineBits, AffineGroup, AffineScale};
use metile_ir::{DType, Format, PackedFormat, Scalar};

mod sealed {
    pub trait Sealed {}
}

/// What a tensor's memory can hold: a dtype, or a packed format that decodes when it is loaded.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a tensor",
    note = "tensors hold bool, i8..i64, u8..u64, f16, bf16, f32, or a packed format such as Q4_0"
)]
pub trait Element: sealed::Sealed + Copy + 'static {
    /// How the memory is laid out.
    const FORMAT: Format;
    /// The dtype of tiles loaded from it: itself, or `f32` for packed formats.
    type Tile: Dtype;
}

/// What a tile can hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the element of a tile",
    note = "tiles hold bool, i8..i64, u8..u64, f16, bf16 or f32"
)]
pub trait Dtype: Element<Tile = Self> + StoredAs<Self> {
    /// The dtype.
    const DTYPE: DType;
    /// The value as a constant.
    fn scalar(self) -> Scalar;
}

/// A dtype whose values a store may put into a tensor of `T`: its own, and between floats, where
/// the store rounds.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` can't be stored in a tensor of `{T}`",
    note = "convert them with `.to::<{T}>()`; a store rounds floats to one another and converts nothing else"
)]
pub trait StoredAs<T> {}
impl<V: Float, T: Float> StoredAs<T> for V {}

/// A dtype that arithmetic combines with `B`: itself, and any float with any float.
#[diagnostic::on_unimplemented(
    message = "tiles of `{Self}` and `{B}` can't be combined",
    note = "both sides need one dtype (f16, bf16 and f32 mix): convert one with `.to::<…>()`"
)]
pub trait MixesWith<B> {}
impl<A: Float, B: Float> MixesWith<B> for A {}
impl StoredAs<bool> for bool {}

/// A dtype with arithmetic.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic",
    note = "arithmetic is defined on i8..i64, u8..u64, f16, bf16 and f32"
)]
pub trait Number: Dtype + MixesWith<Self> {
    /// The dtype that arithmetic gives: `f32` for floats, itself for integers.
    type Wide: Number<Wide = Self::Wide>;
}

/// `f16`, `bf16` or `f32`. Arithmetic on any of them gives `f32`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a float: f16, bf16 or f32")]
pub trait Float: Number<Wide = f32> {
    /// The nearest value, ties to even.
    fn nearest(value: f32) -> Self;
}

/// An integer dtype.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an integer dtype: i8..i64 or u8..u64")]
pub trait Int: Number<Wide = Self> {}

/// What a weight matrix can hold: a float dtype or a packed format.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't hold weights",
    note = "weights are f16, bf16, f32, or a packed format such as Q4_0"
)]
pub trait Weight: Element<Tile: Float> {}

/// An element that crosses between host memory and tensors as it is.
pub trait HostElement: Dtype {
    /// Bytes as a device holds them, little-endian.
    fn to_bytes(values: &[Self]) -> Vec<u8>;
    /// Values from such bytes; a trailing part of an element is ignored.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
}

macro_rules! dtype {
    ($($ty:ty, $dtype:ident, $bits:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const FORMAT: Format = Format::Plain(DType::$dtype);
            type Tile = $ty;
        }
        impl Dtype for $ty {
            const DTYPE: DType = DType::$dtype;
            fn scalar(self) -> Scalar {
                let bits: fn($ty) -> u64 = $bits;
                Scalar::from_bits(DType::$dtype, bits(self))
            }
        }
    )*};
}

dtype! {
    bool, Bool, |v| u64::from(v);
    i8, I8, |v| v as u64;
    u8, U8, |v| u64::from(v);
    i16, I16, |v| v as u64;
    u16, U16, |v| u64::from(v);
    i32, I32, |v| v as u64;
    u32, U32, |v| u64::from(v);
    i64, I64, |v| v as u64;
    u64, U64, |v| v;
    f16, F16, |v| u64::from(v.to_bits());
    bf16, BF16, |v| u64::from(v.to_bits());
    f32, F32, |v| u64::from(v.to_bits());
}

macro_rules! host_bytes {
    ($($ty:ty)*) => {$(
        impl HostElement for $ty {
            fn to_bytes(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|v| v.to_le_bytes()).collect()
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                let (whole, _) = bytes.as_chunks();
                whole.iter().map(|b| <$ty>::from_le_bytes(*b)).collect()
            }
        }
    )*};
}
host_bytes!(i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32);

impl HostElement for bool {
    fn to_bytes(values: &[bool]) -> Vec<u8> {
        values.iter().map(|&v| u8::from(v)).collect()
    }
    fn from_bytes(bytes: &[u8]) -> Vec<bool> {
        bytes.iter().map(|&b| b != 0).collect()
    }
}

macro_rules! int {
    ($($ty:ty)*) => {$(
        impl Number for $ty { type Wide = $ty; }
        impl StoredAs<$ty> for $ty {}
        impl MixesWith<$ty> for $ty {}
        impl Int for $ty {}
    )*};
}
int!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! float {
    ($($ty:ty, $from:expr;)*) => {$(
        impl Number for $ty { type Wide = f32; }
        impl Float for $ty {
            fn nearest(value: f32) -> $ty {
                let from: fn(f32) -> $ty = $from;
                from(value)
            }
        }
        impl Weight for $ty {}
    )*};
}
float! {
    f16, f16::from_f32;
    bf16, bf16::from_f32;
    f32, |v| v;
}

macro_rules! packed {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[allow(non_camel_case_types)] // The names are the formats' own.
        pub struct $name;
        impl sealed::Sealed for $name {}
        impl Element for $name {
            const FORMAT: Format = Format::Packed(PackedFormat::$name);
            type Tile = f32;
        }
        impl Weight for $name {}
    )*};
}
packed! {
    /// GGUF Q4_0: 32 elements in 18 bytes.
    Q4_0;
    /// GGUF Q4_1: 32 elements in 20 bytes.
    Q4_1;
    /// GGUF Q5_0: 32 elements in 22 bytes.
    Q5_0;
    /// GGUF Q5_1: 32 elements in 24 bytes.
    Q5_1;
    /// GGUF Q8_0: 32 elements in 34 bytes.
    Q8_0;
    /// GGUF Q4_K: 256 elements in 144 bytes.
    Q4K;
    /// GGUF Q5_K: 256 elements in 176 bytes.
    Q5K;
    /// GGUF Q6_K: 256 elements in 210 bytes.
    Q6K;
}

/// MLX's affine 4-bit format: groups of `GROUP` (32, 64 or 128) with a scale and a bias of dtype `S`.
#[derive(Clone, Copy, Debug)]
pub struct Affine4<const GROUP: usize, S>(std::marker::PhantomData<S>);

/// MLX's affine 8-bit format: groups of `GROUP` (32, 64 or 128) with a scale and a bias of dtype `S`.
#[derive(Clone, Copy, Debug)]
pub struct Affine8<const GROUP: usize, S>(std::marker::PhantomData<S>);

macro_rules! affine {
    ($($name:ident, $bits:ident, $group:literal, $g:ident, $scale:ty, $s:ident;)*) => {$(
        impl sealed::Sealed for $name<$group, $scale> {}
        impl Element for $name<$group, $scale> {
            const FORMAT: Format = Format::Packed(PackedFormat::Affine(Affine {
                bits: AffineBits::$bits,
                group: AffineGroup::$g,
                scale: AffineScale::$s,
            }));
            type Tile = f32;
        }
        impl Weight for $name<$group, $scale> {}
    )*};
}
affine! {
    Affine4, B4, 32, G32, f16, F16;
    Affine4, B4, 32, G32, bf16, BF16;
    Affine4, B4, 32, G32, f32, F32;
    Affine4, B4, 64, G64, f16, F16;
    Affine4, B4, 64, G64, bf16, BF16;
    Affine4, B4, 64, G64, f32, F32;
    Affine4, B4, 128, G128, f16, F16;
    Affine4, B4, 128, G128, bf16, BF16;
    Affine4, B4, 128, G128, f32, F32;
    Affine8, B8, 32, G32, f16, F16;
    Affine8, B8, 32, G32, bf16, BF16;
    Affine8, B8, 32, G32, f32, F32;
    Affine8, B8, 64, G64, f16, F16;
    Affine8, B8, 64, G64, bf16, BF16;
    Affine8, B8, 64, G64, f32, F32;
    Affine8, B8, 128, G128, f16, F16;
    Affine8, B8, 128, G128, bf16, BF16;
    Affine8, B8, 128, G128, f32, F32;
}
