//! Element types: what a tile holds, and what a tensor's memory holds.

use std::fmt;

/// The type of one element of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// A truth value; one byte in memory, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Unsigned 16-bit integer.
    U16,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer; the type of indices, extents and positions.
    I64,
    /// Unsigned 64-bit integer.
    U64,
    /// IEEE binary16. Stored and moved; arithmetic widens it to `F32`.
    F16,
    /// bfloat16. Stored and moved; arithmetic widens it to `F32`.
    BF16,
    /// IEEE binary32; the type of all floating-point arithmetic.
    F32,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [DType; 12] = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
    ];

    /// The name used in the text form and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
        }
    }

    /// The dtype called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element in memory.
    pub const fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 => 8,
        }
    }

    /// Bits of one element in memory.
    pub const fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// `f16`, `bf16` or `f32`.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32)
    }

    /// A signed or unsigned integer; `bool` is not one.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// A signed integer.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// A dtype that arithmetic is defined on: integers and `f32`.
    pub const fn is_arithmetic(self) -> bool {
        self.is_int() || matches!(self, DType::F32)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A weight format whose elements are packed in blocks along the last axis and decode to `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PackedFormat {
    /// GGUF Q4_0: 32 elements in 18 bytes.
    Q4_0,
    /// GGUF Q4_1: 32 elements in 20 bytes.
    Q4_1,
    /// GGUF Q5_0: 32 elements in 22 bytes.
    Q5_0,
    /// GGUF Q5_1: 32 elements in 24 bytes.
    Q5_1,
    /// GGUF Q8_0: 32 elements in 34 bytes.
    Q8_0,
    /// GGUF Q4_K: 256 elements in 144 bytes.
    Q4K,
    /// GGUF Q5_K: 256 elements in 176 bytes.
    Q5K,
    /// GGUF Q6_K: 256 elements in 210 bytes.
    Q6K,
    /// Groups of integers with a scale and a bias each, in three arrays, as MLX lays them out.
    Affine(Affine),
}

/// The parameters of an affine packed format: `value = scale * q + bias` per group of the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Affine {
    /// Width of one packed integer.
    pub bits: AffineBits,
    /// Elements that share a scale and a bias.
    pub group: AffineGroup,
    /// The dtype of scales and biases: `f16`, `bf16` or `f32`.
    pub scale: AffineScale,
}

/// Widths of an affine format's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AffineBits {
    /// Eight 4-bit integers in a `u32`, lowest bits first.
    B4,
    /// Four 8-bit integers in a `u32`, lowest byte first.
    B8,
}

/// Group sizes of an affine format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AffineGroup {
    /// 32 elements.
    G32,
    /// 64 elements.
    G64,
    /// 128 elements.
    G128,
}

/// Dtypes of an affine format's scales and biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AffineScale {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE binary32.
    F32,
}

impl AffineBits {
    /// The width as a number.
    pub const fn get(self) -> usize {
        match self {
            AffineBits::B4 => 4,
            AffineBits::B8 => 8,
        }
    }
}

impl AffineGroup {
    /// The size as a number.
    pub const fn get(self) -> usize {
        match self {
            AffineGroup::G32 => 32,
            AffineGroup::G64 => 64,
            AffineGroup::G128 => 128,
        }
    }
}

impl AffineScale {
    /// The dtype of scales and biases.
    pub const fn dtype(self) -> DType {
        match self {
            AffineScale::F16 => DType::F16,
            AffineScale::BF16 => DType::BF16,
            AffineScale::F32 => DType::F32,
        }
    }
}

impl PackedFormat {
    /// Every GGUF block format.
    pub const GGUF: [PackedFormat; 8] = [
        PackedFormat::Q4_0,
        PackedFormat::Q4_1,
        PackedFormat::Q5_0,
        PackedFormat::Q5_1,
        PackedFormat::Q8_0,
        PackedFormat::Q4K,
        PackedFormat::Q5K,
        PackedFormat::Q6K,
    ];

    /// Every format there is: the GGUF ones and each affine combination.
    pub fn all() -> Vec<PackedFormat> {
        let mut all = PackedFormat::GGUF.to_vec();
        for bits in [AffineBits::B4, AffineBits::B8] {
            for group in [AffineGroup::G32, AffineGroup::G64, AffineGroup::G128] {
                for scale in [AffineScale::F16, AffineScale::BF16, AffineScale::F32] {
                    all.push(PackedFormat::Affine(Affine { bits, group, scale }));
                }
            }
        }
        all
    }

    /// Elements of the last axis that are packed together; the last axis is a whole number of blocks.
    pub const fn block_elements(self) -> usize {
        match self {
            PackedFormat::Q4_0
            | PackedFormat::Q4_1
            | PackedFormat::Q5_0
            | PackedFormat::Q5_1
            | PackedFormat::Q8_0 => 32,
            PackedFormat::Q4K | PackedFormat::Q5K | PackedFormat::Q6K => 256,
            PackedFormat::Affine(a) => a.group.get(),
        }
    }

    /// Bytes of one block in each of the format's arrays: one array for GGUF formats; packed
    /// integers, scales and biases for affine ones.
    pub fn block_bytes(self) -> Vec<usize> {
        self.array_bytes().into_iter().filter(|&bytes| bytes > 0).collect()
    }

    /// [`block_bytes`](Self::block_bytes) for three arrays; 0 for those that the format lacks.
    pub const fn array_bytes(self) -> [usize; 3] {
        match self {
            PackedFormat::Q4_0 => [18, 0, 0],
            PackedFormat::Q4_1 => [20, 0, 0],
            PackedFormat::Q5_0 => [22, 0, 0],
            PackedFormat::Q5_1 => [24, 0, 0],
            PackedFormat::Q8_0 => [34, 0, 0],
            PackedFormat::Q4K => [144, 0, 0],
            PackedFormat::Q5K => [176, 0, 0],
            PackedFormat::Q6K => [210, 0, 0],
            PackedFormat::Affine(a) => {
                let scale = a.scale.dtype().bytes();
                [a.group.get() * a.bits.get() / 8, scale, scale]
            }
        }
    }

    /// The format called `name` in the text form.
    pub fn from_name(name: &str) -> Option<PackedFormat> {
        PackedFormat::all().into_iter().find(|f| f.to_string() == name)
    }
}

impl fmt::Display for PackedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PackedFormat::Q4_0 => f.write_str("q4_0"),
            PackedFormat::Q4_1 => f.write_str("q4_1"),
            PackedFormat::Q5_0 => f.write_str("q5_0"),
            PackedFormat::Q5_1 => f.write_str("q5_1"),
            PackedFormat::Q8_0 => f.write_str("q8_0"),
            PackedFormat::Q4K => f.write_str("q4_k"),
            PackedFormat::Q5K => f.write_str("q5_k"),
            PackedFormat::Q6K => f.write_str("q6_k"),
            PackedFormat::Affine(a) => {
                write!(f, "affine{}_g{}_{}", a.bits.get(), a.group.get(), a.scale.dtype())
            }
        }
    }
}

/// What a tensor's memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// One element after another.
    Plain(DType),
    /// Blocks that decode to `f32`; read-only.
    Packed(PackedFormat),
}

impl Format {
    /// The dtype of a tile loaded from memory of this format.
    pub const fn loaded(self) -> DType {
        match self {
            Format::Plain(d) => d,
            Format::Packed(_) => DType::F32,
        }
    }

    /// The format called `name` in the text form.
    pub fn from_name(name: &str) -> Option<Format> {
        DType::from_name(name)
            .map(Format::Plain)
            .or_else(|| PackedFormat::from_name(name).map(Format::Packed))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::Plain(d) => d.fmt(f),
            Format::Packed(p) => p.fmt(f),
        }
    }
}
