//! Tensors as they travel: dtype, shape, values, and a SHA-256 over the raw little-endian bytes.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The hash of tensors, as reports name it.
pub const HASH: &str = "sha256";

/// Element types that travel.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Dtype {
    F32,
    F16,
    Bf16,
    I32,
    U32,
    I64,
    U8,
}

impl Dtype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Dtype::U8 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::I64 => 8,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::I32 => "i32",
            Dtype::U32 => "u32",
            Dtype::I64 => "i64",
            Dtype::U8 => "u8",
        })
    }
}

/// What is wrong with a tensor that travelled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TensorError {
    #[error("the shape {shape:?} of {dtype} has more bytes than can be counted")]
    Uncountable { dtype: Dtype, shape: Vec<usize> },
    #[error("a tensor {dtype} {shape:?} has {bytes} bytes, and the limit is {limit}")]
    TooLarge { dtype: Dtype, shape: Vec<usize>, bytes: u64, limit: u64 },
    #[error("`{file}` is not a plain name in the exchange folder")]
    FileName { file: String },
    #[error("the file `{file}` is not a regular file")]
    NotAFile { file: String },
    #[error("the file `{file}` has {found} bytes; {dtype} {shape:?} has {expected}")]
    Length { file: String, dtype: Dtype, shape: Vec<usize>, expected: u64, found: u64 },
    #[error("the file `{file}` has SHA-256 {found}, and {announced} was announced")]
    Hash { file: String, announced: String, found: String },
    #[error("expected {expected_dtype} {expected_shape:?}, and {dtype} {shape:?} came")]
    Unexpected {
        expected_dtype: Dtype,
        expected_shape: Vec<usize>,
        dtype: Dtype,
        shape: Vec<usize>,
    },
    #[error("{values} values do not fill the shape {shape:?}")]
    Count { values: usize, shape: Vec<usize> },
    #[error("{dtype} values where {expected} are needed")]
    Values { dtype: Dtype, expected: &'static str },
    #[error("{doing} {file}: {source}")]
    Io { doing: &'static str, file: String, source: std::io::Error },
}

/// Values of one element type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
}

macro_rules! each {
    ($values:expr, $v:ident => $body:expr) => {
        match $values {
            Values::F32($v) => $body,
            Values::F16($v) => $body,
            Values::Bf16($v) => $body,
            Values::I32($v) => $body,
            Values::U32($v) => $body,
            Values::I64($v) => $body,
            Values::U8($v) => $body,
        }
    };
}

impl Values {
    /// `count` zeros.
    pub(super) fn zeros(dtype: Dtype, count: usize) -> Values {
        match dtype {
            Dtype::F32 => Values::F32(vec![0.0; count]),
            Dtype::F16 => Values::F16(vec![f16::ZERO; count]),
            Dtype::Bf16 => Values::Bf16(vec![bf16::ZERO; count]),
            Dtype::I32 => Values::I32(vec![0; count]),
            Dtype::U32 => Values::U32(vec![0; count]),
            Dtype::I64 => Values::I64(vec![0; count]),
            Dtype::U8 => Values::U8(vec![0; count]),
        }
    }

    /// Their memory. On a big-endian machine this would have to swap; metile runs on none.
    pub fn bytes(&self) -> &[u8] {
        const { assert!(cfg!(target_endian = "little"), "tensors travel little-endian") };
        each!(self, v => bytemuck::cast_slice(v))
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        each!(self, v => bytemuck::cast_slice_mut(v))
    }

    fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    fn dtype(&self) -> Dtype {
        match self {
            Values::F32(_) => Dtype::F32,
            Values::F16(_) => Dtype::F16,
            Values::Bf16(_) => Dtype::Bf16,
            Values::I32(_) => Dtype::I32,
            Values::U32(_) => Dtype::U32,
            Values::I64(_) => Dtype::I64,
            Values::U8(_) => Dtype::U8,
        }
    }
}

macro_rules! from_vec {
    ($($t:ty => $variant:ident),*) => {$(
        impl From<Vec<$t>> for Values {
            fn from(values: Vec<$t>) -> Values {
                Values::$variant(values)
            }
        }
    )*};
}
from_vec!(f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32, u32 => U32, i64 => I64, u8 => U8);

/// A dense tensor on the host, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    values: Values,
}

impl Tensor {
    /// `values` in the given shape.
    ///
    /// # Errors
    /// If their count is not the shape's.
    pub fn new(shape: &[usize], values: impl Into<Values>) -> Result<Tensor, TensorError> {
        let values = values.into();
        let count = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent));
        if count != Some(values.len()) {
            return Err(TensorError::Count { values: values.len(), shape: shape.to_vec() });
        }
        Ok(Tensor { shape: shape.to_vec(), values })
    }

    /// Its element type.
    pub fn dtype(&self) -> Dtype {
        self.values.dtype()
    }

    /// Its extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Floating-point values widened to f32, which loses nothing.
    ///
    /// # Errors
    /// If they are integers.
    pub fn to_f32(&self) -> Result<Vec<f32>, TensorError> {
        match &self.values {
            Values::F32(v) => Ok(v.clone()),
            Values::F16(v) => Ok(v.iter().map(|x| x.to_f32()).collect()),
            Values::Bf16(v) => Ok(v.iter().map(|x| x.to_f32()).collect()),
            _ => {
                Err(TensorError::Values { dtype: self.dtype(), expected: "floating-point values" })
            }
        }
    }

    /// SHA-256 of its bytes, in hexadecimal.
    pub fn sha256(&self) -> String {
        sha256(self.values.bytes())
    }

    /// Refuses any other dtype or shape.
    ///
    /// # Errors
    /// If it has another.
    pub fn expect(self, dtype: Dtype, shape: &[usize]) -> Result<Tensor, TensorError> {
        if self.dtype() == dtype && self.shape == shape {
            return Ok(self);
        }
        Err(TensorError::Unexpected {
            expected_dtype: dtype,
            expected_shape: shape.to_vec(),
            dtype: self.dtype(),
            shape: self.shape,
        })
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
