//! Arguments of a launch, and the proof that no access through them can leave a buffer.

use super::Failure;
use super::value::{Tile, Value, View, ViewPart};
use crate::dtype::Format;
use crate::scalar::Scalar;
use crate::tile::{Access, Kernel, TensorType, TileType, Type};
use std::rc::Rc;

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A run-time scalar.
    Scalar(Scalar),
    /// A tensor.
    Tensor(TensorArgument),
    /// Tensors of one shape.
    List(Vec<TensorArgument>),
}

/// Where a tensor lies.
#[derive(Clone, Debug)]
pub struct TensorArgument {
    /// Where element 0 lies, in each of the format's arrays.
    pub parts: Vec<Part>,
    /// Extents, outermost first.
    pub shape: Vec<u64>,
    /// Distance between neighbours along each axis in elements. For packed formats: in blocks, and 1
    /// for the last axis, whose blocks are contiguous.
    pub strides: Vec<i64>,
}

/// One array of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Which buffer.
    pub buffer: usize,
    /// Byte offset of element 0.
    pub byte_offset: u64,
}

/// Memory of a launch.
#[derive(Debug)]
pub enum Buffer<'b> {
    /// Only read.
    Read(&'b [u8]),
    /// Read and written.
    Write(&'b mut [u8]),
}

impl Buffer<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Buffer::Read(bytes) => bytes,
            Buffer::Write(bytes) => bytes,
        }
    }
    pub(super) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Buffer::Read(_) => None,
            Buffer::Write(bytes) => Some(bytes),
        }
    }
}

/// The kernel's parameters as values.
pub(super) fn bind(
    kernel: &Kernel,
    arguments: &[Argument],
    buffers: &[Buffer<'_>],
) -> Result<Vec<Value>, Failure> {
    if kernel.parameters.len() != arguments.len() {
        let (wanted, given) = (kernel.parameters.len(), arguments.len());
        return Err(Failure::ArgumentCount { wanted, given });
    }
    let mut values = Vec::with_capacity(arguments.len());
    for (n, (&parameter, argument)) in kernel.parameters.iter().zip(arguments).enumerate() {
        let value = bind_one(n, kernel.ty(parameter), argument, buffers);
        values.push(value.map_err(|message| Failure::Argument {
            name: super::report::parameter_name(kernel, n),
            message,
        })?);
    }
    Ok(values)
}

fn bind_one(
    n: usize,
    ty: Type,
    argument: &Argument,
    buffers: &[Buffer<'_>],
) -> Result<Value, String> {
    match (ty, argument) {
        (Type::Tile(t), Argument::Scalar(s)) if t == TileType::scalar(s.dtype()) => {
            Ok(Value::Tile(Rc::new(Tile::scalar(*s))))
        }
        (Type::Tile(t), Argument::Scalar(s)) => Err(format!("is {}, not {t}", s.dtype())),
        (Type::Tensor(t), Argument::Tensor(a)) => {
            Ok(Value::View(Rc::new(view(n, t, a, buffers)?)))
        }
        (Type::TensorList(t), Argument::List(items)) => {
            let views: Result<Vec<View>, String> =
                items.iter().map(|a| view(n, t, a, buffers)).collect();
            let views = views?;
            if views.is_empty() {
                return Err("is a list without tensors".to_owned());
            }
            if views.windows(2).any(|pair| pair[0].shape != pair[1].shape) {
                return Err("is a list of tensors of different shapes".to_owned());
            }
            Ok(Value::List(Rc::new(views)))
        }
        (ty, _) => Err(format!("is not a {ty}")),
    }
}

fn view(
    parameter: usize,
    ty: TensorType,
    a: &TensorArgument,
    buffers: &[Buffer<'_>],
) -> Result<View, String> {
    let rank = ty.rank as usize;
    if a.shape.len() != rank || a.strides.len() != rank {
        return Err(format!("has {} axes, not {rank}", a.shape.len()));
    }
    if let Some(extent) = a.shape.iter().find(|&&extent| i64::try_from(extent).is_err()) {
        return Err(format!("has an extent of {extent}; extents are below 2^63"));
    }
    let unit_bytes = match ty.format {
        Format::Plain(d) => vec![d.bytes()],
        Format::Packed(p) => p.block_bytes(),
    };
    if a.parts.len() != unit_bytes.len() {
        return Err(format!("lies in {} arrays, not {}", a.parts.len(), unit_bytes.len()));
    }
    let mut units = a.shape.clone();
    if let (Format::Packed(p), Some(last)) = (ty.format, units.last_mut()) {
        let block = p.block_elements() as u64;
        if *last % block != 0 {
            return Err(format!("has a last axis of {last}, no multiple of the block of {block}"));
        }
        if a.strides.last() != Some(&1) {
            return Err("has a last axis of blocks that are not contiguous".to_owned());
        }
        *last /= block;
    }
    if ty.access == Access::ReadWrite && repeats(&units, &a.strides) {
        return Err("is written, but an axis of stride 0 makes indices share an element".to_owned());
    }
    let mut parts = Vec::new();
    for (part, bytes) in a.parts.iter().zip(unit_bytes) {
        inside(ty, part, &units, &a.strides, bytes, buffers)?;
        parts.push(ViewPart { buffer: part.buffer, byte_offset: part.byte_offset as i64 });
    }
    Ok(View { ty, parts, shape: a.shape.clone(), strides: a.strides.clone(), parameter })
}

fn repeats(units: &[u64], strides: &[i64]) -> bool {
    !units.contains(&0) && units.iter().zip(strides).any(|(&extent, &stride)| extent > 1 && stride == 0)
}

fn inside(
    ty: TensorType,
    part: &Part,
    units: &[u64],
    strides: &[i64],
    bytes: usize,
    buffers: &[Buffer<'_>],
) -> Result<(), String> {
    let buffer = buffers
        .get(part.buffer)
        .ok_or_else(|| format!("lies in buffer {}, which is not given", part.buffer))?;
    if ty.access != Access::Read && matches!(buffer, Buffer::Read(_)) {
        return Err("is written, but its buffer is read-only".to_owned());
    }
    if units.contains(&0) {
        return Ok(());
    }
    let (mut low, mut high) = (i128::from(part.byte_offset), i128::from(part.byte_offset));
    for (&extent, &stride) in units.iter().zip(strides) {
        let reach = i128::from(extent - 1) * i128::from(stride) * bytes as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    let size = buffer.bytes().len() as i128;
    if low < 0 || high + bytes as i128 > size {
        return Err(format!(
            "reaches bytes {low}..{} of a buffer of {size}",
            high + bytes as i128
        ));
    }
    Ok(())
}
