//! Tensors as the host sees them: a shape and strides over a device's memory.

use crate::element::{Element, HostElement};
use metile_ir::Format;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Memory on a device.
pub trait Storage: Send + Sync + std::any::Any + std::fmt::Debug {
    /// Size in bytes.
    fn len(&self) -> usize;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The device that owns it, as in error messages.
    fn device(&self) -> &str;
    /// Copies `out.len()` bytes from `offset` to the host.
    ///
    /// # Errors
    /// If the range is outside, or the device fails.
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<(), TensorError>;
    /// Copies `data` from the host to `offset`.
    ///
    /// # Errors
    /// If the range is outside, or the device fails.
    fn write(&self, offset: usize, data: &[u8]) -> Result<(), TensorError>;
}

/// A device that hands out memory.
pub trait Allocate {
    /// `bytes` bytes of zeros.
    ///
    /// # Errors
    /// If the device has no room for it.
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Storage>, TensorError>;
}

/// Why a tensor could not be made, read or viewed.
#[derive(Debug, thiserror::Error)]
pub enum TensorError {
    /// Data and shape differ in size.
    #[error("shape {shape:?} of {format} needs {needed} {unit}, but {given} are given")]
    Size {
        /// The shape asked for.
        shape: Vec<usize>,
        /// The element format.
        format: Format,
        /// What the shape needs.
        needed: usize,
        /// What was given.
        given: usize,
        /// Elements or bytes.
        unit: &'static str,
    },
    /// The shape is not possible.
    #[error("shape {shape:?} of {format} is not possible: {reason}")]
    Shape {
        /// The shape asked for.
        shape: Vec<usize>,
        /// The element format.
        format: Format,
        /// Why not.
        reason: String,
    },
    /// A view would leave its tensor.
    #[error("{view} is outside of the shape {shape:?}")]
    View {
        /// The view asked for.
        view: String,
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// Bytes outside of a storage.
    #[error("bytes {offset}..{end} are outside of a storage of {size} bytes")]
    Range {
        /// First byte.
        offset: usize,
        /// One past the last byte.
        end: usize,
        /// The storage's size.
        size: usize,
    },
    /// The device's own failure.
    #[error("{device}: {message}")]
    Device {
        /// The device.
        device: String,
        /// What it said.
        message: String,
    },
}

/// One array of a tensor: where its element 0 lies in which storage.
#[derive(Clone, Debug)]
pub struct Part {
    /// The memory.
    pub storage: Arc<dyn Storage>,
    /// Byte offset of element 0.
    pub byte_offset: u64,
}

/// A tensor without its Rust type, as devices see it.
#[derive(Clone, Debug)]
pub struct RawTensor {
    /// What the memory holds.
    pub format: Format,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Distance between neighbours along each axis, in elements. For packed formats: in blocks, and
    /// 1 for the last axis, whose blocks are contiguous.
    pub strides: Vec<i64>,
    /// One part for plain and GGUF formats; packed integers, scales and biases for affine ones.
    pub parts: Vec<Part>,
}

/// A tensor on a device: `R` axes of elements `T`. Views share the memory of the tensor they come
/// from; which views a launch may write is checked when it is prepared.
pub struct Tensor<T: Element, const R: usize> {
    raw: RawTensor,
    _of: PhantomData<fn() -> T>,
}

impl<T: Element, const R: usize> std::fmt::Debug for Tensor<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor<{}>{:?}", T::FORMAT, self.raw.shape)
    }
}

fn row_major(shape: &[usize]) -> Option<(Vec<i64>, usize)> {
    let mut strides = vec![1i64; shape.len()];
    let mut elements = 1usize;
    for (stride, &side) in strides.iter_mut().zip(shape).rev() {
        *stride = i64::try_from(elements).ok()?;
        elements = elements.checked_mul(side.max(1))?;
    }
    i64::try_from(elements).ok()?;
    Some((strides, shape.iter().product()))
}

impl<T: Element, const R: usize> Tensor<T, R> {
    fn impossible(shape: [usize; R], reason: impl Into<String>) -> TensorError {
        TensorError::Shape { shape: shape.to_vec(), format: T::FORMAT, reason: reason.into() }
    }

    /// A tensor over `parts` as they are, row-major and without gaps.
    ///
    /// # Errors
    /// If the shape is impossible, or a part has fewer bytes than it needs.
    pub fn from_parts(shape: [usize; R], parts: Vec<Part>) -> Result<Self, TensorError> {
        let rank_ok = (1..=metile_ir::tile::MAX_RANK).contains(&R);
        if !rank_ok {
            return Err(Self::impossible(shape, "a tensor has 1 to 4 axes"));
        }
        let (shape_in_units, unit_bytes) = Self::units(shape)?;
        let too_large = || Self::impossible(shape, "it has more than 2^63 elements");
        let (mut strides, units) = row_major(&shape_in_units).ok_or_else(too_large)?;
        if parts.len() != unit_bytes.len() {
            let reason = format!("it is made of {} arrays, not {}", unit_bytes.len(), parts.len());
            return Err(Self::impossible(shape, reason));
        }
        for (part, bytes) in parts.iter().zip(unit_bytes) {
            let needed = units.checked_mul(bytes).ok_or_else(too_large)?;
            let given = part.storage.len().saturating_sub(part.byte_offset as usize);
            if given < needed {
                let shape = shape.to_vec();
                return Err(TensorError::Size {
                    shape,
                    format: T::FORMAT,
                    needed,
                    given,
                    unit: "bytes",
                });
            }
        }
        if let Some(last) = strides.last_mut() {
            *last = 1;
        }
        let raw = RawTensor { format: T::FORMAT, shape: shape.to_vec(), strides, parts };
        Ok(Tensor { raw, _of: PhantomData })
    }

    /// The shape counted in stored units (blocks of the last axis, for packed formats), and the
    /// bytes of a unit in each array.
    fn units(shape: [usize; R]) -> Result<(Vec<usize>, Vec<usize>), TensorError> {
        match T::FORMAT {
            Format::Plain(d) => Ok((shape.to_vec(), vec![d.bytes()])),
            Format::Packed(p) => {
                let block = p.block_elements();
                let mut units = shape.to_vec();
                if let Some(last) = units.last_mut() {
                    if *last % block != 0 {
                        let reason = format!(
                            "its last axis is no multiple of the block of {block} elements"
                        );
                        return Err(Self::impossible(shape, reason));
                    }
                    *last /= block;
                }
                Ok((units, p.block_bytes()))
            }
        }
    }

    /// A tensor of zeros (for packed formats: of zero bytes).
    ///
    /// # Errors
    /// If the shape is impossible or the device has no room.
    pub fn zeros(device: &impl Allocate, shape: [usize; R]) -> Result<Self, TensorError> {
        let (units, unit_bytes) = Self::units(shape)?;
        let too_large = || Self::impossible(shape, "it has more than 2^63 elements");
        let (_, count) = row_major(&units).ok_or_else(too_large)?;
        let mut parts = Vec::new();
        for bytes in unit_bytes {
            let storage = device.allocate(count.checked_mul(bytes).ok_or_else(too_large)?)?;
            parts.push(Part { storage, byte_offset: 0 });
        }
        Self::from_parts(shape, parts)
    }

    /// A tensor from the bytes of each of its arrays: one for plain and GGUF formats; packed
    /// integers, scales and biases for affine ones.
    ///
    /// # Errors
    /// If the shape is impossible, an array's size is not what the shape needs, or there is no room.
    pub fn from_bytes(
        device: &impl Allocate,
        shape: [usize; R],
        arrays: &[&[u8]],
    ) -> Result<Self, TensorError> {
        let tensor = Self::zeros(device, shape)?;
        if arrays.len() != tensor.raw.parts.len() {
            let reason =
                format!("it is made of {} arrays, not {}", tensor.raw.parts.len(), arrays.len());
            return Err(Self::impossible(shape, reason));
        }
        for (part, bytes) in tensor.raw.parts.iter().zip(arrays) {
            let (needed, given) = (part.storage.len(), bytes.len());
            if needed != given {
                let shape = shape.to_vec();
                return Err(TensorError::Size {
                    shape,
                    format: T::FORMAT,
                    needed,
                    given,
                    unit: "bytes",
                });
            }
            part.storage.write(0, bytes)?;
        }
        Ok(tensor)
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> [usize; R] {
        std::array::from_fn(|axis| self.raw.shape[axis])
    }

    /// The tensor without its Rust type.
    pub fn raw(&self) -> &RawTensor {
        &self.raw
    }

    fn outside(&self, view: String) -> TensorError {
        TensorError::View { view, shape: self.raw.shape.clone() }
    }

    /// Bytes from one index of `axis` to the next in each array; `None` for a packed axis.
    fn step_bytes(&self, axis: usize) -> Option<Vec<i64>> {
        let stride = *self.raw.strides.get(axis)?;
        match self.raw.format {
            Format::Plain(d) => Some(vec![stride * d.bytes() as i64]),
            Format::Packed(_) if axis + 1 == R => None,
            Format::Packed(p) => Some(p.block_bytes().iter().map(|&b| stride * b as i64).collect()),
        }
    }

    fn shifted(&self, axis: usize, by: usize) -> Result<RawTensor, TensorError> {
        let mut raw = self.raw.clone();
        if by > 0 {
            let steps = self.step_bytes(axis).ok_or_else(|| {
                self.outside(format!("a view that cuts axis {axis}, which is packed or missing,"))
            })?;
            for (part, step) in raw.parts.iter_mut().zip(steps) {
                part.byte_offset = part.byte_offset.saturating_add_signed(step * by as i64);
            }
        }
        Ok(raw)
    }

    /// The view of elements `range` of `axis`.
    ///
    /// # Errors
    /// If the range is outside, or the axis is packed.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Tensor<T, R>, TensorError> {
        let extent = *self.raw.shape.get(axis).unwrap_or(&0);
        let packed = self.step_bytes(axis).is_none();
        if range.start > range.end || range.end > extent || packed {
            return Err(self.outside(format!("{range:?} of axis {axis}")));
        }
        let mut raw = self.shifted(axis, range.start)?;
        raw.shape[axis] = range.len();
        Ok(Tensor { raw, _of: PhantomData })
    }

    /// The view of every `step`-th element of `axis`, the first included.
    ///
    /// # Errors
    /// If there is no such axis, it is packed, or the step is 0.
    pub fn step_by(&self, axis: usize, step: usize) -> Result<Tensor<T, R>, TensorError> {
        if step == 0 || self.step_bytes(axis).is_none() {
            return Err(self.outside(format!("every {step}th of axis {axis}")));
        }
        let mut raw = self.raw.clone();
        raw.shape[axis] = raw.shape[axis].div_ceil(step);
        raw.strides[axis] =
            raw.strides[axis].saturating_mul(i64::try_from(step).unwrap_or(i64::MAX));
        Ok(Tensor { raw, _of: PhantomData })
    }

    /// The view with two axes exchanged.
    ///
    /// # Errors
    /// If there is no such axis, or one is packed.
    pub fn swap_axes(&self, a: usize, b: usize) -> Result<Tensor<T, R>, TensorError> {
        if self.step_bytes(a).is_none() || self.step_bytes(b).is_none() {
            return Err(self.outside(format!("exchanging axes {a} and {b}")));
        }
        let mut raw = self.raw.clone();
        raw.shape.swap(a, b);
        raw.strides.swap(a, b);
        Ok(Tensor { raw, _of: PhantomData })
    }

    /// The read-only view in which an axis of extent 1 repeats `extent` times.
    ///
    /// # Errors
    /// If the axis is missing or packed, or its extent is not 1.
    pub fn repeat_axis(&self, axis: usize, extent: usize) -> Result<Tensor<T, R>, TensorError> {
        if self.raw.shape.get(axis) != Some(&1) || self.step_bytes(axis).is_none() {
            return Err(self.outside(format!("repeating axis {axis}")));
        }
        let mut raw = self.raw.clone();
        raw.shape[axis] = extent;
        raw.strides[axis] = 0;
        Ok(Tensor { raw, _of: PhantomData })
    }

    /// A second handle to the same memory.
    pub fn share(&self) -> Tensor<T, R> {
        Tensor { raw: self.raw.clone(), _of: PhantomData }
    }
}

impl<T: HostElement, const R: usize> Tensor<T, R> {
    /// A tensor with `values` in row-major order.
    ///
    /// # Errors
    /// If there are not as many values as the shape has elements, or the device has no room.
    pub fn from_slice(
        device: &impl Allocate,
        shape: [usize; R],
        values: &[T],
    ) -> Result<Self, TensorError> {
        let elements = shape.iter().try_fold(1usize, |n, &side| n.checked_mul(side));
        if elements != Some(values.len()) {
            return Err(TensorError::Size {
                shape: shape.to_vec(),
                format: T::FORMAT,
                needed: elements.unwrap_or(usize::MAX),
                given: values.len(),
                unit: "elements",
            });
        }
        Self::from_bytes(device, shape, &[&T::to_bytes(values)])
    }

    /// The elements in row-major order, copied to the host.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_vec(&self) -> Result<Vec<T>, TensorError> {
        let raw = &self.raw;
        let bytes = T::DTYPE.bytes();
        let mut out = Vec::new();
        let Some(part) = raw.parts.first() else { return Ok(out) };
        if raw.shape.contains(&0) {
            return Ok(out);
        }
        // One read for as much as lies together: on a GPU a read costs the same whatever its length.
        let (mut run, mut axes) = (1usize, R);
        while axes > 0 && (raw.strides[axes - 1] == run as i64 || raw.shape[axes - 1] == 1) {
            axes -= 1;
            run *= raw.shape[axes];
        }
        let runs: usize = raw.shape[..axes].iter().product();
        let mut buffer = vec![0; run * bytes];
        for n in 0..runs {
            let mut rest = n;
            let mut at = 0i64;
            for axis in (0..axes).rev() {
                at += (rest % raw.shape[axis]) as i64 * raw.strides[axis];
                rest /= raw.shape[axis];
            }
            let place = part.byte_offset.saturating_add_signed(at * bytes as i64) as usize;
            part.storage.read(place, &mut buffer)?;
            out.extend(T::from_bytes(&buffer));
        }
        Ok(out)
    }
}

impl Tensor<u8, 2> {
    /// The same memory as rows of blocks: `[rows, blocks · block bytes]` bytes become
    /// `[rows, blocks · block elements]` elements of the packed format `W`.
    ///
    /// # Errors
    /// If `W` is no format of one array of blocks, the rows are no whole number of blocks, or they
    /// have gaps that are not.
    pub fn as_blocks<W: Element>(&self) -> Result<Tensor<W, 2>, TensorError> {
        let refuse = |reason: String| TensorError::Shape {
            shape: self.raw.shape.clone(),
            format: W::FORMAT,
            reason,
        };
        let sizes = match W::FORMAT {
            Format::Packed(p) => p.block_bytes(),
            Format::Plain(_) => Vec::new(),
        };
        let (Format::Packed(packed), [bytes]) = (W::FORMAT, &sizes[..]) else {
            return Err(refuse("it is no format of blocks in one array".to_owned()));
        };
        let (row, stride) = (self.raw.shape[1], self.raw.strides[0]);
        if row % bytes != 0 || stride % *bytes as i64 != 0 || self.raw.strides[1] != 1 {
            return Err(refuse(format!(
                "rows of {row} bytes, {stride} apart, are no rows of blocks of {bytes} bytes"
            )));
        }
        let mut raw = self.raw.clone();
        raw.format = W::FORMAT;
        raw.shape[1] = row / bytes * packed.block_elements();
        raw.strides[0] = stride / *bytes as i64;
        Ok(Tensor { raw, _of: PhantomData })
    }
}

/// Tensors of one element, shape and stride, for a kernel that picks one by a run-time index.
#[derive(Debug)]
pub struct TensorList<T: Element, const R: usize> {
    items: Vec<RawTensor>,
    _of: PhantomData<fn() -> T>,
}

impl<T: Element, const R: usize> TensorList<T, R> {
    /// A list of `tensors`.
    ///
    /// # Errors
    /// If their shapes differ.
    pub fn new(tensors: &[&Tensor<T, R>]) -> Result<Self, TensorError> {
        let items: Vec<RawTensor> = tensors.iter().map(|t| t.raw.clone()).collect();
        if let Some(first) = items.first()
            && let Some(odd) = items.iter().find(|t| t.shape != first.shape)
        {
            return Err(TensorError::Shape {
                shape: odd.shape.clone(),
                format: T::FORMAT,
                reason: format!("the first tensor of the list has shape {:?}", first.shape),
            });
        }
        Ok(TensorList { items, _of: PhantomData })
    }

    /// The tensors without their Rust type.
    pub fn raw(&self) -> &[RawTensor] {
        &self.items
    }
}

/// Counters on a device, all 0 at first, by which programs of a persistent kernel wait for each other.
#[derive(Debug)]
pub struct Counters {
    tensor: Tensor<u32, 1>,
}

impl Counters {
    /// `n` counters at 0.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(device: &impl Allocate, n: usize) -> Result<Counters, TensorError> {
        Ok(Counters { tensor: Tensor::zeros(device, [n])? })
    }
    /// Sets all counters to 0, as a launch that counts from 0 needs.
    ///
    /// # Errors
    /// If the device fails.
    pub fn reset(&mut self) -> Result<(), TensorError> {
        let part = &self.tensor.raw.parts[0];
        part.storage.write(0, &vec![0; part.storage.len()])
    }
    /// The counters' values.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_vec(&self) -> Result<Vec<u32>, TensorError> {
        self.tensor.to_vec()
    }
    /// The counters as a tensor.
    pub fn raw(&self) -> &RawTensor {
        self.tensor.raw()
    }
}
