//! Kernels that also store a tile which they compute on the way, so that devices can be compared operation by
//! operation.

use metile_ir::dtype::{DType, Format};
use metile_ir::scalar::Scalar;
use metile_ir::tile::{
    Access, BinaryOp, Definition, Kernel, Op, OpId, OpKind, Shape, TensorType, TileType, Type,
    Value, ValueData,
};

/// The tiles and scalars that the operations of `kernel` give, in the order they stand in. What leaves a loop or branch was
/// given within it.
pub fn observable(kernel: &Kernel) -> Vec<(OpId, Value)> {
    let ops = kernel.walk(kernel.body).into_iter();
    let tiles = ops.filter(|&id| kernel.ops[id].regions.is_empty()).flat_map(|id| {
        let results = kernel.ops[id].results.iter();
        results.filter(|&&v| kernel.ty(v).tile().is_some()).map(move |&v| (id, v))
    });
    tiles.collect()
}

/// `kernel` with one parameter more, `observed`, of `programs · elements` elements: each program of the grid stores
/// there what `value`, a result of `op`, is, row by row. In a loop the last round stays.
pub fn observe(mut kernel: Kernel, op: OpId, value: Value) -> Kernel {
    let Some(tile) = kernel.ty(value).tile() else { return kernel };
    let observed =
        TensorType { format: Format::Plain(tile.dtype), rank: 1, access: Access::ReadWrite };
    let parameter = kernel.values.push(ValueData {
        ty: Type::Tensor(observed),
        definition: Definition::Parameter(kernel.parameters.len() as u32),
        name: Some("observed".to_owned()),
    });
    kernel.parameters.push(parameter);
    let mut after = After { kernel, ops: Vec::new(), span: None };
    after.span = after.kernel.ops[op].span;
    let place = after.place(tile.shape);
    after.op(OpKind::Store { masked: false }, &[parameter, place, value], None);
    let After { mut kernel, ops, .. } = after;
    let regions: Vec<_> = kernel.regions.iter().map(|(id, _)| id).collect();
    for region in regions {
        let here = kernel.regions[region].ops.iter().position(|&o| o == op);
        if let Some(at) = here {
            kernel.regions[region].ops.splice(at + 1..at + 1, ops);
            break;
        }
    }
    kernel
}

/// Operations to stand after the one observed.
struct After {
    kernel: Kernel,
    ops: Vec<OpId>,
    span: Option<metile_ir::Span>,
}

impl After {
    fn op(&mut self, kind: OpKind, operands: &[Value], result: Option<TileType>) -> Option<Value> {
        let op = self.kernel.ops.push(Op {
            kind,
            operands: operands.to_vec(),
            results: Vec::new(),
            regions: Vec::new(),
            span: self.span,
        });
        self.ops.push(op);
        let value = self.kernel.values.push(ValueData {
            ty: Type::Tile(result?),
            definition: Definition::Result(op, 0),
            name: None,
        });
        self.kernel.ops[op].results.push(value);
        Some(value)
    }

    fn tile(&mut self, kind: OpKind, operands: &[Value], shape: Shape) -> Value {
        let ty = TileType { dtype: DType::I64, shape };
        let made = self.op(kind, operands, Some(ty));
        made.or(operands.first().copied()).unwrap_or(self.kernel.parameters[0])
    }

    fn scalar(&mut self, kind: OpKind, operands: &[Value]) -> Value {
        self.tile(kind, operands, Shape::SCALAR)
    }

    /// Where each element of a tile goes.
    fn place(&mut self, shape: Shape) -> Value {
        let [add, multiply] = [BinaryOp::Add, BinaryOp::Mul].map(OpKind::Binary);
        let mut program = self.scalar(OpKind::ProgramId(2), &[]);
        for axis in [1, 0] {
            let extent = self.scalar(OpKind::NumPrograms(axis), &[]);
            let id = self.scalar(OpKind::ProgramId(axis), &[]);
            program = self.scalar(multiply.clone(), &[program, extent]);
            program = self.scalar(add.clone(), &[program, id]);
        }
        let count = self.scalar(OpKind::Constant(Scalar::i64(shape.elements() as i64)), &[]);
        let first = self.scalar(multiply, &[program, count]);
        if shape.is_scalar() {
            return first;
        }
        let line = Shape::new(&[shape.elements()]).unwrap_or(shape);
        let index = self.tile(OpKind::Arange, &[], line);
        let index = if line == shape { index } else { self.tile(OpKind::Reshape, &[index], shape) };
        let first = self.tile(OpKind::Broadcast, &[first], shape);
        self.tile(add, &[first, index], shape)
    }
}
