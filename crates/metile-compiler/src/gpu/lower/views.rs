//! Tensors and views of them.

use super::{Lowering, Val};
use crate::gpu::class::{Class, MULTIPLE};
use crate::gpu::facts::Fact;
use metile_device::{MemoryOp, Op as DeviceOp, Type as DeviceType, Value as Dv, Word};
use metile_ir::dtype::{DType, Format};
use metile_ir::tile::{Access, BinaryOp, CompareOp, Op, OpKind, TensorType, Type, Value};

/// One axis of a view.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Elements.
    pub extent: Dv,
    /// What is known of the extent.
    pub extent_fact: Fact,
    /// The distance of neighbours, in elements (in blocks for packed formats); `None` for 1.
    pub stride: Option<Dv>,
    /// What is known of the stride.
    pub stride_fact: Fact,
}

/// A tensor or a view of one.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// The parameter it comes from.
    pub parameter: u16,
    /// What it holds.
    pub ty: TensorType,
    /// Its arrays.
    pub pointers: Vec<Dv>,
    /// Whether every array begins at a multiple of 16 bytes.
    pub aligned: bool,
    /// Where its element 0 lies, in elements (in blocks for packed formats); `None` for 0.
    pub offset: Option<Dv>,
    /// What is known of the offset.
    pub offset_fact: Fact,
    /// Its axes.
    pub axes: Vec<Axis>,
}

impl View {
    /// Whether the launch writes it.
    pub fn is_written(&self) -> bool {
        self.ty.access != Access::Read
    }
}

/// What offsets into an array of this format count.
fn unit(format: Format) -> DType {
    match format {
        Format::Plain(DType::Bool) | Format::Packed(_) => DType::U8,
        Format::Plain(dtype) => dtype,
    }
}

fn arrays(format: Format) -> u8 {
    match format {
        Format::Plain(_) => 1,
        Format::Packed(p) => p.block_bytes().len() as u8,
    }
}

/// The words that parameter `parameter` takes.
pub(super) fn declare(parameter: u16, ty: Type, words: &mut Vec<Word>) {
    let tensor = match ty {
        Type::Tile(t) => {
            words.push(Word::Scalar { parameter, dtype: t.dtype });
            return;
        }
        Type::Tensor(t) => {
            let (dtype, writable) = (unit(t.format), t.access != Access::Read);
            words.extend((0..arrays(t.format)).map(|array| Word::Pointer {
                parameter,
                array,
                dtype,
                writable,
            }));
            t
        }
        Type::TensorList(t) => {
            words.extend((0..arrays(t.format)).map(|array| Word::ListTable { parameter, array }));
            words.push(Word::ListLength { parameter });
            t
        }
    };
    words.extend((0..tensor.rank).map(|axis| Word::Extent { parameter, axis }));
    words.extend((0..tensor.rank).map(|axis| Word::Stride { parameter, axis }));
}

impl Lowering<'_> {
    fn class(&self, parameter: u16) -> Class {
        self.classes.get(parameter as usize).copied().unwrap_or_default()
    }

    fn axes(&mut self, parameter: u16, ty: TensorType) -> Vec<Axis> {
        let class = self.class(parameter);
        (0..ty.rank)
            .map(|axis| {
                let fact = |known: u8, low| Fact {
                    low,
                    high: 1 << 47,
                    multiple: if known >> axis & 1 == 1 { MULTIPLE } else { 1 },
                };
                let last = axis + 1 == ty.rank;
                let one = last && (class.unit || matches!(ty.format, Format::Packed(_)));
                Axis {
                    extent: self.word(Word::Extent { parameter, axis }),
                    extent_fact: fact(class.extents, 0),
                    stride: (!one).then(|| self.word(Word::Stride { parameter, axis })),
                    stride_fact: match one {
                        true => Fact::constant(1),
                        false => fact(class.strides, -(1 << 47)),
                    },
                }
            })
            .collect()
    }

    pub(super) fn parameter_view(&mut self, parameter: u16, ty: TensorType) -> View {
        let (dtype, writable) = (unit(ty.format), ty.access != Access::Read);
        let pointers = (0..arrays(ty.format))
            .map(|array| self.word(Word::Pointer { parameter, array, dtype, writable }))
            .collect();
        View {
            parameter,
            ty,
            pointers,
            aligned: self.class(parameter).aligned,
            offset: None,
            offset_fact: Fact::constant(0),
            axes: self.axes(parameter, ty),
        }
    }

    pub(super) fn view(&self, value: Value) -> Option<View> {
        match self.values.get(&value) {
            Some(Val::View(view)) => Some(view.clone()),
            _ => None,
        }
    }

    pub(super) fn view_op(&mut self, op: &Op) {
        if op.kind == OpKind::ListItem {
            return self.list_item(op);
        }
        let Some(view) = self.view(op.operands[0]) else { return };
        match op.kind {
            OpKind::Dim { axis } => {
                let extent = view.axes[axis as usize].extent;
                self.set(op.results[0], Val::Scalar(extent));
            }
            OpKind::Narrow { axis } => self.narrow(op, view, axis as usize),
            OpKind::Pick { axis } => self.pick(op, view, axis as usize),
            _ => {}
        }
    }

    /// `view` with element 0 moved by `by` neighbours of an axis.
    fn shift(&mut self, view: &mut View, axis: usize, by: Dv, fact: Fact) {
        let axis = &view.axes[axis];
        let step = match axis.stride {
            Some(stride) => self.b.binary(BinaryOp::Mul, by, stride),
            None => by,
        };
        view.offset_fact = view.offset_fact.plus(fact.times(axis.stride_fact));
        view.offset = Some(match view.offset {
            Some(offset) => self.b.binary(BinaryOp::Add, offset, step),
            None => step,
        });
    }

    fn narrow(&mut self, op: &Op, mut view: View, axis: usize) {
        let (start, length) = (self.scalar(op.operands[1]), self.scalar(op.operands[2]));
        let start_fact = self.facts.of(op.operands[1]);
        let length_fact = self.facts.of(op.operands[2]);
        let Axis { extent, extent_fact, .. } = view.axes[axis];
        let zero = self.i64(0);
        let clamp = |l: &mut Self, v: Dv, known: bool, most: Dv| {
            let low = if known { v } else { l.b.binary(BinaryOp::Max, v, zero) };
            l.b.binary(BinaryOp::Min, low, most)
        };
        let start = clamp(self, start, start_fact.is_positive(), extent);
        let left = self.b.binary(BinaryOp::Sub, extent, start);
        let length = clamp(self, length, length_fact.is_positive(), left);
        let multiple = start_fact.multiple.min(extent_fact.multiple);
        let fact = Fact { low: 0, high: extent_fact.high, multiple };
        let is_zero = (start_fact.low, start_fact.high) == (0, 0);
        if !is_zero {
            self.shift(&mut view, axis, start, fact);
        }
        view.axes[axis].extent = length;
        view.axes[axis].extent_fact.multiple = multiple.min(length_fact.multiple);
        self.set(op.results[0], Val::View(view));
    }

    fn pick(&mut self, op: &Op, mut view: View, axis: usize) {
        let index = self.scalar(op.operands[1]);
        let fact = self.facts.of(op.operands[1]);
        let Axis { extent, .. } = view.axes[axis];
        let within = self.within(index, fact, extent);
        let zero = self.i64(0);
        let index = self.b.select(within, index, zero);
        self.shift(&mut view, axis, index, fact);
        view.axes.remove(axis);
        view.ty.rank -= 1;
        self.empty_unless(&mut view, within);
        self.set(op.results[0], Val::View(view));
    }

    /// Whether an index lies in an extent.
    pub(super) fn within(&mut self, index: Dv, fact: Fact, extent: Dv) -> Dv {
        let below = self.b.compare(CompareOp::Lt, index, extent);
        if fact.is_positive() {
            return below;
        }
        let zero = self.i64(0);
        let positive = self.b.compare(CompareOp::Ge, index, zero);
        self.b.binary(BinaryOp::And, below, positive)
    }

    /// One empty axis empties the view.
    fn empty_unless(&mut self, view: &mut View, holds: Dv) {
        let zero = self.i64(0);
        if let Some(axis) = view.axes.first_mut() {
            axis.extent = self.b.select(holds, axis.extent, zero);
        }
    }

    fn list_item(&mut self, op: &Op) {
        let Some(&Val::List(parameter)) = self.values.get(&op.operands[0]) else { return };
        let Type::TensorList(ty) = self.kernel.ty(op.operands[0]) else { return };
        let index = self.scalar(op.operands[1]);
        let fact = self.facts.of(op.operands[1]);
        let length = self.word(Word::ListLength { parameter });
        let within = self.within(index, fact, length);
        let zero = self.i64(0);
        let index = self.b.select(within, index, zero);
        let pointer = DeviceType::Pointer { dtype: unit(ty.format), writable: false };
        let pointers = (0..arrays(ty.format))
            .map(|array| {
                let table = self.word(Word::ListTable { parameter, array });
                self.b.one(DeviceOp::Memory(MemoryOp::Entry), &[table, index], pointer)
            })
            .collect();
        let mut view = View {
            parameter,
            ty,
            pointers,
            aligned: self.class(parameter).aligned,
            offset: None,
            offset_fact: Fact::constant(0),
            axes: self.axes(parameter, ty),
        };
        // An empty list has no entry 0 to read: its table has one all the same, of a null address.
        self.empty_unless(&mut view, within);
        self.set(op.results[0], Val::View(view));
    }
}
