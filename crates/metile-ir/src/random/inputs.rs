//! Arguments for a kernel: a grid, tensors laid out in all the ways that are allowed, and their bytes.

use super::choices::{Choices, SplitMix};
use super::{COUNTERS, scalars};
use crate::dtype::{AffineScale, DType, Format, PackedFormat};
use crate::interp::{Argument, Buffer, Part, TensorArgument};
use crate::tile::{Access, Kernel, TensorType, Type};

/// What a launch needs besides the kernel.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Programs along each axis.
    pub grid: [u64; 3],
    /// The arguments, in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
    /// The bytes of each buffer.
    pub bytes: Vec<Vec<u8>>,
    /// Which buffers the kernel may write.
    pub writable: Vec<bool>,
}

impl Inputs {
    /// The buffers, as a launch takes them.
    pub fn buffers(&mut self) -> Vec<Buffer<'_>> {
        let pairs = self.bytes.iter_mut().zip(&self.writable);
        pairs
            .map(
                |(bytes, &writable)| {
                    if writable { Buffer::Write(bytes) } else { Buffer::Read(bytes) }
                },
            )
            .collect()
    }
}

/// Arguments for `kernel`. Written tensors with more than one axis have a row per program of the
/// grid; counters are [`COUNTERS`] zeros; no two parameters share memory.
pub fn arguments(kernel: &Kernel, choices: &mut Choices<'_>) -> Inputs {
    let mut grid =
        [1 + choices.below(4), 1 + choices.below(2), 1 + choices.below(2)].map(|n| n as u64);
    if choices.chance(2) {
        grid[choices.below(3)] = 0;
    }
    // Contents take more bytes than there are: they come from a generator.
    let random = SplitMix::new(choices.word());
    let inputs = Inputs { grid, arguments: Vec::new(), bytes: Vec::new(), writable: Vec::new() };
    let mut writer = Writer { choices, random, inputs };
    for &parameter in &kernel.parameters {
        let argument = match kernel.ty(parameter) {
            Type::Tile(t) => Argument::Scalar(scalars::constant(writer.choices, t.dtype)),
            Type::Tensor(t) => {
                let shape = writer.shape(t);
                Argument::Tensor(writer.tensor(t, &shape))
            }
            Type::TensorList(t) => {
                let shape = writer.shape(t);
                let count = 1 + writer.choices.below(3);
                Argument::List((0..count).map(|_| writer.tensor(t, &shape)).collect())
            }
        };
        writer.inputs.arguments.push(argument);
    }
    writer.inputs
}

struct Writer<'w, 'c> {
    choices: &'w mut Choices<'c>,
    random: SplitMix,
    inputs: Inputs,
}

impl Writer<'_, '_> {
    /// Extents: few elements, often a row for each program.
    fn shape(&mut self, ty: TensorType) -> Vec<u64> {
        let rank = ty.rank as usize;
        if ty.access == Access::Counter {
            return vec![COUNTERS];
        }
        let mut shape: Vec<u64> = (1..rank).map(|_| 1 + self.choices.below(5) as u64).collect();
        shape.push(1 + self.choices.below(40) as u64);
        if let (Format::Packed(p), Some(last)) = (ty.format, shape.last_mut()) {
            *last = p.block_elements() as u64 * (1 + self.choices.below(2) as u64);
        }
        if ty.access == Access::ReadWrite && rank > 1 {
            let programs: u64 = self.inputs.grid.iter().product();
            // One row too few: the last program has none, and its stores do nothing.
            let missing = u64::from(self.choices.chance(16));
            shape[0] = (programs + u64::from(self.choices.chance(32))).saturating_sub(missing);
        }
        if self.choices.chance(6) {
            let axis = self.choices.below(rank);
            shape[axis] = 0;
        }
        shape
    }

    fn tensor(&mut self, ty: TensorType, shape: &[u64]) -> TensorArgument {
        match ty.format {
            Format::Plain(dtype) => self.plain(ty, dtype, shape),
            Format::Packed(format) => self.packed(format, shape),
        }
    }

    /// Strides in any order of axes, with gaps, backwards, and for what is only read, of 0. Gives the
    /// strides, the offset of element 0 and the size of the whole, all in elements.
    fn layout(&mut self, extents: &[u64], repeat: bool, contiguous: usize) -> (Vec<i64>, u64, u64) {
        let mut order: Vec<usize> = (0..extents.len() - contiguous).collect();
        if self.choices.chance(64) {
            order.reverse();
        }
        order.extend(extents.len() - contiguous..extents.len());
        let (mut strides, mut step) = (vec![1i64; extents.len()], 1u64);
        let (mut first, mut last) = (0u64, 0u64);
        for (n, &axis) in order.iter().rev().enumerate() {
            let free = n >= contiguous;
            if free && self.choices.chance(40) {
                step += self.choices.below(4) as u64;
            }
            let reach = step * extents[axis].saturating_sub(1);
            strides[axis] = step as i64;
            if free && repeat && self.choices.chance(16) {
                strides[axis] = 0;
                continue;
            }
            if free && self.choices.chance(24) {
                strides[axis] = -strides[axis];
                first += reach;
            }
            last += reach;
            step *= extents[axis].max(1);
        }
        (strides, first, last + 1)
    }

    fn plain(&mut self, ty: TensorType, dtype: DType, shape: &[u64]) -> TensorArgument {
        let counter = ty.access == Access::Counter;
        let read = ty.access == Access::Read;
        let (strides, first, size) = match counter {
            true => (vec![1], 0, COUNTERS),
            false => self.layout(shape, read, 0),
        };
        let before = if counter { 0 } else { self.choices.below(4) as u64 };
        let elements = before + size + self.choices.below(3) as u64;
        let mut bytes = Vec::new();
        for _ in 0..elements {
            let element = scalars::element(dtype, self.random.next());
            let bits = if counter { 0 } else { element.bits() };
            bytes.extend(&bits.to_le_bytes()[..dtype.bytes()]);
        }
        let part = self.buffer(bytes, !read, (before + first) * dtype.bytes() as u64);
        TensorArgument { parts: vec![part], shape: shape.to_vec(), strides }
    }

    fn packed(&mut self, format: PackedFormat, shape: &[u64]) -> TensorArgument {
        let mut units = shape.to_vec();
        if let Some(last) = units.last_mut() {
            *last /= format.block_elements() as u64;
        }
        let (strides, first, size) = self.layout(&units, true, 1);
        let before = self.choices.below(2) as u64;
        let mut parts = Vec::new();
        for (array, block) in format.block_bytes().into_iter().enumerate() {
            let mut bytes = Vec::new();
            for _ in 0..before + size {
                let start = bytes.len();
                bytes.extend((0..block).map(|_| (self.random.next() >> 56) as u8));
                self.scales(format, array, &mut bytes[start..]);
            }
            parts.push(self.buffer(bytes, false, (before + first) * block as u64));
        }
        TensorArgument { parts, shape: shape.to_vec(), strides }
    }

    /// Puts floats worth having where the block's scales lie; random bits would be huge or NaN.
    fn scales(&mut self, format: PackedFormat, array: usize, block: &mut [u8]) {
        let (dtype, places): (DType, &[usize]) = match (format, array) {
            (PackedFormat::Q4_0 | PackedFormat::Q5_0 | PackedFormat::Q8_0, _) => (DType::F16, &[0]),
            (PackedFormat::Q4_1 | PackedFormat::Q5_1, _) => (DType::F16, &[0, 2]),
            (PackedFormat::Q4K | PackedFormat::Q5K, _) => (DType::F16, &[0, 2]),
            (PackedFormat::Q6K, _) => (DType::F16, &[208]),
            (PackedFormat::Affine(_), 0) => return,
            (PackedFormat::Affine(a), _) => match a.scale {
                AffineScale::F16 => (DType::F16, &[0]),
                AffineScale::BF16 => (DType::BF16, &[0]),
                AffineScale::F32 => (DType::F32, &[0]),
            },
        };
        for &at in places {
            let bits = scalars::element(dtype, self.random.next()).bits().to_le_bytes();
            if let Some(place) = block.get_mut(at..at + dtype.bytes()) {
                place.copy_from_slice(&bits[..dtype.bytes()]);
            }
        }
    }

    fn buffer(&mut self, bytes: Vec<u8>, writable: bool, byte_offset: u64) -> Part {
        self.inputs.bytes.push(bytes);
        self.inputs.writable.push(writable);
        Part { buffer: self.inputs.bytes.len() - 1, byte_offset }
    }
}
