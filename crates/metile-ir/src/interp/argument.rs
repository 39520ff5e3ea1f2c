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

/// What is known of a buffer wherever it lies.
#[derive(Clone, Copy, Debug)]
pub struct BufferInfo {
    /// Its size.
    pub bytes: usize,
    /// Whether the launch may write it.
    pub writable: bool,
}

impl From<&Buffer<'_>> for BufferInfo {
    fn from(buffer: &Buffer<'_>) -> BufferInfo {
        BufferInfo { bytes: buffer.bytes().len(), writable: matches!(buffer, Buffer::Write(_)) }
    }
}

/// The kernel's parameters as values.
pub(super) fn bind(
    kernel: &Kernel,
    arguments: &[Argument],
    buffers: &[BufferInfo],
) -> Result<Vec<Value>, Failure> {
    if kernel.parameters.len() != arguments.len() {
        let (wanted, given) = (kernel.parameters.len(), arguments.len());
        return Err(Failure::ArgumentCount { wanted, given });
    }
    let mut values = Vec::with_capacity(arguments.len());
    for (n, (&parameter, argument)) in kernel.parameters.iter().zip(arguments).enumerate() {
        let value = bind_one(n, kernel.ty(parameter), argument, buffers);
        values.push(
            value
                .map_err(|message| Failure::Argument { name: kernel.parameter_name(n), message })?,
        );
    }
    Ok(values)
}

fn bind_one(
    n: usize,
    ty: Type,
    argument: &Argument,
    buffers: &[BufferInfo],
) -> Result<Value, String> {
    match (ty, argument) {
        (Type::Tile(t), Argument::Scalar(s)) if t == TileType::scalar(s.dtype()) => {
            Ok(Value::Tile(Rc::new(Tile::scalar(*s))))
        }
        (Type::Tile(t), Argument::Scalar(s)) => Err(format!("is {}, not {t}", s.dtype())),
        (Type::Tensor(t), Argument::Tensor(a)) => Ok(Value::View(Rc::new(view(n, t, a, buffers)?))),
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
    buffers: &[BufferInfo],
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
    let mut parts = Vec::new();
    for (part, bytes) in a.parts.iter().zip(unit_bytes) {
        inside(ty, part, &units, &a.strides, bytes, buffers)?;
        parts.push(ViewPart { buffer: part.buffer, byte_offset: part.byte_offset as i64 });
    }
    if ty.access != Access::Read && shares_elements(&units, &a.strides) {
        return Err("is written, but its strides make two indices share an element".to_owned());
    }
    Ok(View { ty, parts, shape: a.shape.clone(), strides: a.strides.clone(), parameter })
}

/// Whether two indices lie at one place. The tensor is known to lie within its buffer, which bounds
/// what this takes.
fn shares_elements(units: &[u64], strides: &[i64]) -> bool {
    if units.contains(&0) {
        return false;
    }
    let mut axes: Vec<(u128, u128)> = units
        .iter()
        .zip(strides)
        .filter(|(extent, _)| **extent > 1)
        .map(|(&extent, &stride)| (u128::from(stride.unsigned_abs()), u128::from(extent)))
        .collect();
    axes.sort_unstable();
    // Usual layouts nest: each axis steps over all that lies within.
    let mut reach = 0u128;
    let nested = axes.iter().all(|&(stride, extent)| {
        let clear = stride > reach;
        reach += stride * (extent - 1);
        clear
    });
    if nested {
        return false;
    }
    // Interleaved ones may do without sharing; more elements than places may not.
    let elements = axes.iter().try_fold(1u128, |n, &(_, extent)| n.checked_mul(extent));
    if elements.is_none_or(|n| n > reach + 1) {
        return true;
    }
    let mut taken = vec![false; reach as usize + 1];
    let mut at = vec![0u128; axes.len()];
    loop {
        let place: u128 = at.iter().zip(&axes).map(|(i, (stride, _))| i * stride).sum();
        if std::mem::replace(&mut taken[place as usize], true) {
            return true;
        }
        // The next index, as an odometer counts.
        let Some(axis) = (0..axes.len()).find(|&n| at[n] + 1 < axes[n].1) else { return false };
        at[axis] += 1;
        at[..axis].fill(0);
    }
}

/// That every element lies within its buffer, and that the buffer may be used as the type says.
fn inside(
    ty: TensorType,
    part: &Part,
    units: &[u64],
    strides: &[i64],
    bytes: usize,
    buffers: &[BufferInfo],
) -> Result<(), String> {
    let buffer = buffers
        .get(part.buffer)
        .ok_or_else(|| format!("lies in buffer {}, which is not given", part.buffer))?;
    if ty.access != Access::Read && !buffer.writable {
        return Err("is written, but its buffer is read-only".to_owned());
    }
    if units.contains(&0) {
        return Ok(());
    }
    // Extents and strides may be anything, so that even 128 bits can overflow.
    let reach = |(&extent, &stride): (&u64, &i64)| {
        i128::from(extent - 1).checked_mul(i128::from(stride))?.checked_mul(bytes as i128)
    };
    let (mut low, mut high) = (i128::from(part.byte_offset), i128::from(part.byte_offset));
    for axis in units.iter().zip(strides) {
        let moved = reach(axis).and_then(|reach| {
            let end = if reach < 0 { &mut low } else { &mut high };
            *end = end.checked_add(reach)?;
            Some(())
        });
        if moved.is_none() {
            return Err("reaches further than any buffer".to_owned());
        }
    }
    let size = buffer.bytes as i128;
    match high.checked_add(bytes as i128) {
        Some(end) if low >= 0 && end <= size => Ok(()),
        Some(end) => Err(format!("reaches bytes {low}..{end} of a buffer of {size}")),
        None => Err("reaches further than any buffer".to_owned()),
    }
}
