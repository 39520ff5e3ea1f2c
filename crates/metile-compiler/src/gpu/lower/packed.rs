//! Loads of packed weights: every element is decoded from its block's bytes, in the arithmetic of
//! [`metile_ir::packed`].

use super::Lowering;
use super::threads::Evaluated;
use super::views::View;
use crate::gpu::layout::Layout;
use metile_device::{MemoryOp, Op as DeviceOp, Value as Dv};
use metile_ir::dtype::{Affine as AffineFormat, DType, PackedFormat};
use metile_ir::tile::BinaryOp::{Add, And, Div, Mul, Or, Rem, Shl, Shr, Sub};
use metile_ir::tile::CompareOp;

/// Where elements lie in their blocks.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    /// The number of each element's block, `i64`.
    block: Dv,
    /// Its place in the block, `i32`.
    within: Dv,
    /// Which elements there are.
    mask: Option<Dv>,
    count: u32,
}

impl Lowering<'_> {
    pub(super) fn load_packed(
        &mut self,
        view: &View,
        format: PackedFormat,
        coordinates: &[Evaluated],
        mask: Option<Dv>,
        fill: Dv,
        layout: &Layout,
    ) -> Dv {
        let count = layout.count();
        let inside = self.inside(view, coordinates);
        let mask = self.all(&[inside, mask]);
        let last = coordinates.len() - 1;
        let column = self.registers_of(&coordinates[last]);
        let size = self.i64(format.block_elements() as i64);
        let along = self.b.binary(Div, column, size);
        let within = self.b.binary(Rem, column, size);
        let within = self.b.cast(within, DType::I32);
        let mut rows = coordinates.to_vec();
        rows[last] = Evaluated::Registers(along);
        let (block, immediates) = self.offset(view, &rows, count);
        let block = match immediates.iter().all(|&i| i == 0) {
            true => block,
            false => {
                let parts = self.b.ints(DType::I64, &immediates);
                self.b.binary(Add, block, parts)
            }
        };
        let at = Blocks { block, within, mask, count };
        let decoded = match format {
            PackedFormat::Q4_0 | PackedFormat::Q4_1 => self.four_bits(view, format, at),
            PackedFormat::Q5_0 | PackedFormat::Q5_1 => self.five_bits(view, format, at),
            PackedFormat::Q8_0 => self.eight_bits(view, at),
            PackedFormat::Q4K => self.k_four_five(view, at, false),
            PackedFormat::Q5K => self.k_four_five(view, at, true),
            PackedFormat::Q6K => self.k_six(view, at),
            PackedFormat::Affine(affine) => self.affine(view, affine, at),
        };
        let decoded = match mask {
            Some(mask) => self.b.select(mask, decoded, fill),
            None => decoded,
        };
        self.b.spread(decoded, count)
    }

    /// The bytes at `offset` of each block of `bytes`, as `u8`.
    fn bytes(&mut self, view: &View, array: usize, at: Blocks, bytes: i64, offset: Dv) -> Dv {
        let size = self.i64(bytes);
        let first = self.b.binary(Mul, at.block, size);
        let offset = self.b.cast(offset, DType::I64);
        let place = self.b.binary(Add, first, offset);
        let place = self.b.spread(place, at.count);
        let mut operands = vec![view.pointers[array], place];
        if let Some(mask) = at.mask {
            let zero = self.int(DType::U8, 0);
            operands.extend([mask, zero]);
        }
        let load = MemoryOp::Load {
            width: 1,
            immediates: vec![0; at.count as usize],
            masked: at.mask.is_some(),
            constant: true,
        };
        self.make(DeviceOp::Memory(load), &operands, DType::U8, at.count)
    }

    /// The same as `u32`.
    fn byte(&mut self, view: &View, at: Blocks, bytes: i64, offset: Dv) -> Dv {
        let byte = self.bytes(view, 0, at, bytes, offset);
        self.b.cast(byte, DType::U32)
    }

    /// A little-endian number of `width` bytes at `offset` of each block of array `array`, as `u32`.
    fn little_endian(
        &mut self,
        view: &View,
        array: usize,
        at: Blocks,
        bytes: i64,
        offset: Dv,
        width: i64,
    ) -> Dv {
        let mut word = None;
        for n in 0..width {
            let step = self.int(DType::I32, n);
            let place = self.b.binary(Add, offset, step);
            let byte = self.bytes(view, array, at, bytes, place);
            let byte = self.b.cast(byte, DType::U32);
            let shift = self.int(DType::U32, 8 * n);
            let byte = self.b.binary(Shl, byte, shift);
            word = Some(match word {
                Some(word) => self.b.binary(Or, word, byte),
                None => byte,
            });
        }
        match word {
            Some(word) => word,
            None => self.int(DType::U32, 0),
        }
    }

    /// An `f16` at byte `offset`, as `f32`.
    fn half(&mut self, view: &View, at: Blocks, bytes: i64, offset: i64) -> Dv {
        let offset = self.int(DType::I32, offset);
        let word = self.little_endian(view, 0, at, bytes, offset, 2);
        let bits = self.b.cast(word, DType::U16);
        let half = self.b.bitcast(bits, DType::F16);
        self.b.cast(half, DType::F32)
    }

    fn small(&mut self, op: metile_ir::tile::BinaryOp, a: Dv, b: i64) -> Dv {
        let dtype = self.b.program.dtype(a).unwrap_or(DType::I32);
        let b = self.int(dtype, b);
        self.b.binary(op, a, b)
    }

    /// The low half of a byte where `low`, else the high half.
    fn nibble(&mut self, byte: Dv, low: Dv) -> Dv {
        let (below, above) = (self.small(And, byte, 15), self.small(Shr, byte, 4));
        self.b.select(low, below, above)
    }

    /// `q - bias` as `f32`.
    fn signed(&mut self, q: Dv, bias: i64) -> Dv {
        let q = self.b.cast(q, DType::I32);
        let q = self.small(Sub, q, bias);
        self.b.cast(q, DType::F32)
    }

    /// The nibble of each element: 16 bytes from `first`, low halves first.
    fn nibbles(&mut self, view: &View, at: Blocks, bytes: i64, first: i64) -> Dv {
        let place = self.small(Rem, at.within, 16);
        let place = self.small(Add, place, first);
        let byte = self.byte(view, at, bytes, place);
        let sixteen = self.int(DType::I32, 16);
        let low = self.b.compare(CompareOp::Lt, at.within, sixteen);
        self.nibble(byte, low)
    }

    fn four_bits(&mut self, view: &View, format: PackedFormat, at: Blocks) -> Dv {
        let with_min = format == PackedFormat::Q4_1;
        let bytes = if with_min { 20 } else { 18 };
        let d = self.half(view, at, bytes, 0);
        let q = self.nibbles(view, at, bytes, bytes - 16);
        self.scaled_block(view, at, bytes, d, q, with_min, 8)
    }

    #[expect(clippy::too_many_arguments, reason = "a block has this many parts")]
    fn scaled_block(
        &mut self,
        view: &View,
        at: Blocks,
        bytes: i64,
        d: Dv,
        q: Dv,
        with_min: bool,
        bias: i64,
    ) -> Dv {
        let q = self.signed(q, if with_min { 0 } else { bias });
        let product = self.b.binary(Mul, q, d);
        if !with_min {
            return product;
        }
        let m = self.half(view, at, bytes, 2);
        self.b.binary(Add, product, m)
    }

    fn five_bits(&mut self, view: &View, format: PackedFormat, at: Blocks) -> Dv {
        let with_min = format == PackedFormat::Q5_1;
        let (bytes, high_at) = if with_min { (24, 4) } else { (22, 2) };
        let d = self.half(view, at, bytes, 0);
        let low = self.nibbles(view, at, bytes, bytes - 16);
        let place = self.small(Div, at.within, 8);
        let place = self.small(Add, place, high_at);
        let byte = self.byte(view, at, bytes, place);
        let bit = self.small(Rem, at.within, 8);
        let bit = self.b.cast(bit, DType::U32);
        let high = self.b.binary(Shr, byte, bit);
        let high = self.small(And, high, 1);
        let high = self.small(Shl, high, 4);
        let q = self.b.binary(Or, low, high);
        self.scaled_block(view, at, bytes, d, q, with_min, 16)
    }

    fn eight_bits(&mut self, view: &View, at: Blocks) -> Dv {
        let d = self.half(view, at, 34, 0);
        let place = self.small(Add, at.within, 2);
        let byte = self.bytes(view, 0, at, 34, place);
        let q = self.b.bitcast(byte, DType::I8);
        let q = self.b.cast(q, DType::F32);
        self.b.binary(Mul, q, d)
    }

    /// Scale and minimum of sub-block `sub` of eight, 6 bits each in 12 bytes from byte 4, as `f32`.
    fn scale_min(&mut self, view: &View, at: Blocks, bytes: i64, sub: Dv) -> (Dv, Dv) {
        let four = self.int(DType::I32, 4);
        let low = self.b.compare(CompareOp::Lt, sub, four);
        // Bytes sub, sub + 4 and, for the upper four, sub - 4.
        let read = |l: &mut Self, add: i64| {
            let place = l.small(Add, sub, 4 + add);
            l.byte(view, at, bytes, place)
        };
        let (here, ahead) = (read(self, 0), read(self, 4));
        let zero = self.int(DType::I32, 0);
        let back = self.small(Sub, sub, 4);
        let back = self.b.select(low, zero, back);
        let back = self.small(Add, back, 4);
        let behind = self.byte(view, at, bytes, back);
        let (low_scale, low_min) = (self.small(And, here, 63), self.small(And, ahead, 63));
        let top = |l: &mut Self, byte: Dv| {
            let top = l.small(Shr, byte, 6);
            l.small(Shl, top, 4)
        };
        let (behind, here) = (top(self, behind), top(self, here));
        let (half, rest) = (self.small(And, ahead, 15), self.small(Shr, ahead, 4));
        let high_scale = self.b.binary(Or, half, behind);
        let high_min = self.b.binary(Or, rest, here);
        let scale = self.b.select(low, low_scale, high_scale);
        let min = self.b.select(low, low_min, high_min);
        (self.b.cast(scale, DType::F32), self.b.cast(min, DType::F32))
    }

    fn k_four_five(&mut self, view: &View, at: Blocks, five: bool) -> Dv {
        let (bytes, nibbles_at) = if five { (176, 48) } else { (144, 16) };
        let (d, dmin) = (self.half(view, at, bytes, 0), self.half(view, at, bytes, 2));
        let (sub, within) = (self.small(Div, at.within, 32), self.small(Rem, at.within, 32));
        let pair = self.small(Div, sub, 2);
        let place = self.small(Mul, pair, 32);
        let place = self.b.binary(Add, place, within);
        let place = self.small(Add, place, nibbles_at);
        let byte = self.byte(view, at, bytes, place);
        let odd = self.small(And, sub, 1);
        let zero = self.int(DType::I32, 0);
        let low = self.b.compare(CompareOp::Eq, odd, zero);
        let mut q = self.nibble(byte, low);
        if five {
            let place = self.small(Add, within, 16);
            let high = self.byte(view, at, bytes, place);
            let sub = self.b.cast(sub, DType::U32);
            let high = self.b.binary(Shr, high, sub);
            let high = self.small(And, high, 1);
            let high = self.small(Shl, high, 4);
            q = self.b.binary(Or, q, high);
        }
        let q = self.b.cast(q, DType::F32);
        let (scale, min) = self.scale_min(view, at, bytes, sub);
        let scale = self.b.binary(Mul, d, scale);
        let product = self.b.binary(Mul, scale, q);
        let min = self.b.binary(Mul, dmin, min);
        self.b.binary(Sub, product, min)
    }

    fn k_six(&mut self, view: &View, at: Blocks) -> Dv {
        let bytes = 210;
        let d = self.half(view, at, bytes, 208);
        let (part, rest) = (self.small(Div, at.within, 128), self.small(Rem, at.within, 128));
        let (group, within) = (self.small(Div, rest, 32), self.small(Rem, rest, 32));
        // Low nibbles: 64 bytes a half, two groups beside each other.
        let parts = self.small(Mul, part, 64);
        let odd = self.small(And, group, 1);
        let column = self.small(Mul, odd, 32);
        let place = self.b.binary(Add, parts, column);
        let place = self.b.binary(Add, place, within);
        let byte = self.byte(view, at, bytes, place);
        let two = self.int(DType::I32, 2);
        let first = self.b.compare(CompareOp::Lt, group, two);
        let nibble = self.nibble(byte, first);
        let parts = self.small(Mul, part, 32);
        let place = self.b.binary(Add, parts, within);
        let place = self.small(Add, place, 128);
        let high = self.byte(view, at, bytes, place);
        let shift = self.small(Mul, group, 2);
        let shift = self.b.cast(shift, DType::U32);
        let high = self.b.binary(Shr, high, shift);
        let high = self.small(And, high, 3);
        let high = self.small(Shl, high, 4);
        let q = self.b.binary(Or, nibble, high);
        let q = self.signed(q, 32);
        let parts = self.small(Mul, part, 8);
        let groups = self.small(Mul, group, 2);
        let place = self.b.binary(Add, parts, groups);
        let half = self.small(Div, within, 16);
        let place = self.b.binary(Add, place, half);
        let place = self.small(Add, place, 192);
        let scale = self.bytes(view, 0, at, bytes, place);
        let scale = self.b.bitcast(scale, DType::I8);
        let scale = self.b.cast(scale, DType::F32);
        let scale = self.b.binary(Mul, d, scale);
        self.b.binary(Mul, scale, q)
    }

    fn affine(&mut self, view: &View, affine: AffineFormat, at: Blocks) -> Dv {
        let bits = affine.bits.get() as i64;
        let bytes = affine.group.get() as i64 * bits / 8;
        let q = if bits == 4 {
            let place = self.small(Div, at.within, 2);
            let byte = self.byte(view, at, bytes, place);
            let odd = self.small(And, at.within, 1);
            let zero = self.int(DType::I32, 0);
            let low = self.b.compare(CompareOp::Eq, odd, zero);
            self.nibble(byte, low)
        } else {
            self.byte(view, at, bytes, at.within)
        };
        let q = self.b.cast(q, DType::F32);
        let (scale, bias) =
            (self.affine_part(view, affine, at, 1), self.affine_part(view, affine, at, 2));
        let product = self.b.binary(Mul, scale, q);
        self.b.binary(Add, product, bias)
    }

    /// The scale or the bias of each element's group, as `f32`.
    fn affine_part(&mut self, view: &View, affine: AffineFormat, at: Blocks, array: usize) -> Dv {
        let dtype = affine.scale.dtype();
        let zero = self.int(DType::I32, 0);
        let width = dtype.bytes() as i64;
        let word = self.little_endian(view, array, at, width, zero, width);
        let bits = if dtype == DType::F32 { word } else { self.b.cast(word, DType::U16) };
        let value = self.b.bitcast(bits, dtype);
        self.b.cast(value, DType::F32)
    }
}
