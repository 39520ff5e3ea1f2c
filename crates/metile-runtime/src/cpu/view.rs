//! Tensors and views as the tile machine sees them.

use metile_compiler::cpu::ViewOp;
use metile_ir::dtype::{DType, Format};
use metile_ir::interp::TensorArgument;
use metile_ir::packed;
use metile_ir::tile::{MAX_RANK, TensorType};

/// From this size on a tensor is more than the caches hold: its elements are written past them and asked for
/// before they are read.
const STREAM_BYTES: u64 = 8 << 20;

/// A tensor or a view of one. Every index within its shape lies in memory that the launch holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Element 0 in each array.
    pub parts: [*mut u8; 3],
    /// Extents; 1 beyond the rank.
    pub shape: [i64; MAX_RANK],
    /// Elements (blocks, for packed formats) from one index to the next; 0 beyond the rank.
    pub strides: [i64; MAX_RANK],
    pub rank: usize,
    /// Whether the whole tensor is too large to be found in a cache.
    pub stream: bool,
}

// SAFETY: a view is a place in memory; who uses it holds the storage's lock.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A view without elements.
    pub fn none() -> View {
        View {
            parts: [std::ptr::dangling_mut(); 3],
            shape: [0; MAX_RANK],
            strides: [0; MAX_RANK],
            rank: 1,
            stream: false,
        }
    }

    /// The view of an argument, which was checked against its buffers; these begin at `firsts`.
    pub fn bind(ty: TensorType, argument: &TensorArgument, firsts: &[*mut u8]) -> View {
        let mut view = View { rank: ty.rank as usize, ..View::none() };
        view.shape = [1; MAX_RANK];
        for (axis, (&extent, &stride)) in argument.shape.iter().zip(&argument.strides).enumerate() {
            view.shape[axis] = extent as i64;
            view.strides[axis] = stride;
        }
        for (to, part) in view.parts.iter_mut().zip(&argument.parts) {
            *to = firsts[part.buffer].wrapping_add(part.byte_offset as usize);
        }
        let bytes = ty.format.loaded().bytes() as u64;
        let elements = argument.shape.iter().fold(bytes, |n, &extent| n.saturating_mul(extent));
        view.stream = elements >= STREAM_BYTES;
        view
    }

    pub fn apply(&self, op: ViewOp, format: Format, regs: &[u64]) -> View {
        let reg = |r: u32| regs[r as usize] as i64;
        match op {
            ViewOp::Narrow { axis, start, length } => {
                let axis = axis as usize;
                let mut view = *self;
                let extent = self.shape[axis];
                let start = reg(start).clamp(0, extent);
                view.shape[axis] = reg(length).clamp(0, extent - start);
                if view.shape[axis] > 0 {
                    view.shift(axis, start, format);
                }
                view
            }
            ViewOp::Pick { axis, index } => {
                let (axis, index) = (axis as usize, reg(index));
                let rank = self.rank - 1;
                if index < 0 || index >= self.shape[axis] {
                    return View { rank, stream: self.stream, ..View::none() };
                }
                let mut view = *self;
                view.shift(axis, index, format);
                view.shape.copy_within(axis + 1.., axis);
                view.strides.copy_within(axis + 1.., axis);
                view.shape[MAX_RANK - 1] = 1;
                view.strides[MAX_RANK - 1] = 0;
                view.rank = rank;
                view
            }
        }
    }

    fn shift(&mut self, axis: usize, by: i64, format: Format) {
        // A view without elements may have strides that lead anywhere.
        let step = by.wrapping_mul(self.strides[axis]);
        match format {
            Format::Plain(d) => {
                self.parts[0] =
                    self.parts[0].wrapping_offset(step.wrapping_mul(d.bytes() as i64) as isize);
            }
            Format::Packed(p) => {
                for (part, bytes) in self.parts.iter_mut().zip(p.array_bytes()) {
                    *part = part.wrapping_offset(step.wrapping_mul(bytes as i64) as isize);
                }
            }
        }
    }

    /// The place of an element of a plain tensor, if there is such an element.
    pub fn place(&self, dtype: DType, index: &[i64]) -> Option<*mut u8> {
        let mut at = 0;
        for (axis, &i) in index.iter().enumerate() {
            if i < 0 || i >= self.shape[axis] {
                return None;
            }
            at += i * self.strides[axis];
        }
        // An empty axis anywhere leaves no element, whatever the others are.
        Some(self.parts[0].wrapping_offset((at * dtype.bytes() as i64) as isize))
    }

    /// The bits of an element, if there is such an element. A truth value is any byte in memory.
    pub fn read(&self, format: Format, index: &[i64], block: &mut Block) -> Option<u64> {
        match format {
            Format::Plain(dtype) => {
                let place = self.place(dtype, index)?;
                // SAFETY: an index within the shape lies in memory that the launch holds.
                let bits = unsafe { read_bits(place, dtype.bytes()) };
                Some(if dtype == DType::Bool { u64::from(bits != 0) } else { bits })
            }
            Format::Packed(p) => {
                let last = self.rank - 1;
                let inside =
                    index.iter().zip(&self.shape).all(|(&i, &extent)| i >= 0 && i < extent);
                if !inside {
                    return None;
                }
                let elements = p.block_elements() as i64;
                let outer: i64 = (0..last).map(|a| index[a] * self.strides[a]).sum();
                let unit = outer + index[last] / elements;
                // SAFETY: the block holds an element within the shape.
                let values = unsafe { block.decode(self, p, unit) };
                Some(u64::from(values[(index[last] % elements) as usize].to_bits()))
            }
        }
    }
}

/// The low `bytes` bytes at `place`.
///
/// # Safety
/// They may be read.
pub(super) unsafe fn read_bits(place: *const u8, bytes: usize) -> u64 {
    // SAFETY: as the caller promises.
    unsafe {
        match bytes {
            1 => u64::from(*place),
            2 => u64::from(place.cast::<u16>().read_unaligned()),
            4 => u64::from(place.cast::<u32>().read_unaligned()),
            _ => place.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes the low `bytes` bytes of `bits`.
///
/// # Safety
/// They may be written.
pub(super) unsafe fn write_bits(place: *mut u8, bytes: usize, bits: u64) {
    // SAFETY: as the caller promises.
    unsafe {
        match bytes {
            1 => *place = bits as u8,
            2 => place.cast::<u16>().write_unaligned(bits as u16),
            4 => place.cast::<u32>().write_unaligned(bits as u32),
            _ => place.cast::<u64>().write_unaligned(bits),
        }
    }
}

/// The packed block decoded last. Packed tensors are only read, so it stays right for a launch.
#[derive(Debug, Default)]
pub(super) struct Block {
    key: Option<(metile_ir::PackedFormat, [*mut u8; 3])>,
    values: Vec<f32>,
}

impl Block {
    /// To be called when a launch begins: memory may have changed.
    pub fn forget(&mut self) {
        self.key = None;
    }

    /// The elements of block `unit` of `view`.
    ///
    /// # Safety
    /// The block lies in memory that may be read.
    pub unsafe fn decode(
        &mut self,
        view: &View,
        format: metile_ir::PackedFormat,
        unit: i64,
    ) -> &[f32] {
        let sizes = format.array_bytes();
        let mut at = view.parts;
        for (place, bytes) in at.iter_mut().zip(sizes) {
            *place = place.wrapping_offset((unit * bytes as i64) as isize);
        }
        if self.key != Some((format, at)) {
            self.values.resize(format.block_elements(), 0.0);
            let count = if matches!(format, metile_ir::PackedFormat::Affine(_)) { 3 } else { 1 };
            // SAFETY: as the caller promises.
            let arrays: [&[u8]; 3] = std::array::from_fn(|n| unsafe {
                if n < count { std::slice::from_raw_parts(at[n], sizes[n]) } else { &[] }
            });
            // The sizes are the format's own, so decoding can't fail.
            let decoded = packed::decode_block(format, &arrays[..count], &mut self.values);
            debug_assert!(decoded.is_ok(), "{decoded:?}");
            self.key = Some((format, at));
        }
        &self.values
    }
}
