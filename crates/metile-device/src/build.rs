//! Building programs statement by statement.

use crate::ops::*;
use crate::program::*;
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;
use metile_ir::span::Span;

/// Appends statements to a program; blocks are opened and closed around them.
#[derive(Debug)]
pub struct Builder {
    /// The program so far.
    pub program: Program,
    /// Where the next statements come from.
    pub span: Option<Span>,
    open: Vec<Block>,
}

impl Builder {
    /// A builder of a program for blocks of `warps`.
    pub fn new(name: impl Into<String>, warps: u32) -> Builder {
        Builder { program: Program::new(name, warps), span: None, open: vec![Block::default()] }
    }

    /// The program.
    pub fn finish(mut self) -> Program {
        self.program.body = self.open.pop().unwrap_or_default();
        self.program
    }

    /// A new value.
    pub fn value(&mut self, ty: Type) -> Value {
        self.program.values.push(ValueData { ty, name: None })
    }

    /// A new shared buffer.
    pub fn shared(&mut self, name: impl Into<String>, bytes: u32, align: u32) -> Shared {
        self.program.shared.push(SharedBuffer { name: name.into(), bytes, align })
    }

    /// A statement without nested blocks.
    pub fn push(&mut self, op: Op, operands: &[Value], results: &[Value]) {
        self.push_with(op, operands.to_vec(), results.to_vec(), Vec::new());
    }

    /// A statement.
    pub fn push_with(
        &mut self,
        op: Op,
        operands: Vec<Value>,
        results: Vec<Value>,
        blocks: Vec<Block>,
    ) {
        let span = self.span;
        if let Some(block) = self.open.last_mut() {
            block.statements.push(Statement { op, operands, results, blocks, span });
        }
    }

    /// Begins a nested block.
    pub fn begin(&mut self, arguments: Vec<Value>) {
        self.open.push(Block { arguments, statements: Vec::new() });
    }

    /// Ends the block begun last.
    pub fn end(&mut self) -> Block {
        match self.open.len() {
            0 | 1 => Block::default(),
            _ => self.open.pop().unwrap_or_default(),
        }
    }

    /// A statement with one result.
    pub fn one(&mut self, op: Op, operands: &[Value], ty: Type) -> Value {
        let result = self.value(ty);
        self.push(op, operands, &[result]);
        result
    }

    /// The most registers that one of `values` has.
    fn widest(&self, values: &[Value]) -> u32 {
        values.iter().map(|&v| self.program.count(v)).max().unwrap_or(1)
    }

    fn dtype(&self, value: Value) -> DType {
        self.program.dtype(value).unwrap_or(DType::I64)
    }

    /// A scalar.
    pub fn constant(&mut self, scalar: Scalar) -> Value {
        let op = Op::Register(RegisterOp::Constant(vec![scalar]));
        self.one(op, &[], Type::one(scalar.dtype()))
    }
    /// An integer.
    pub fn int(&mut self, dtype: DType, v: i64) -> Value {
        self.constant(Scalar::int(dtype, i128::from(v)))
    }
    /// Integers, one a register.
    pub fn ints(&mut self, dtype: DType, values: &[i64]) -> Value {
        let scalars = values.iter().map(|&v| Scalar::int(dtype, i128::from(v))).collect();
        let op = Op::Register(RegisterOp::Constant(scalars));
        self.one(op, &[], Type::registers(dtype, values.len() as u32))
    }
    /// Where the thread is.
    pub fn position(&mut self, op: PositionOp) -> Value {
        let ty = match op {
            PositionOp::Block | PositionOp::Blocks => Type::one(DType::I64),
            PositionOp::Word(n) => self.program.words[n as usize].ty(),
            PositionOp::Thread | PositionOp::Lane | PositionOp::Warp => Type::one(DType::I32),
        };
        self.one(Op::Position(op), &[], ty)
    }
    /// One operand.
    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        self.one(Op::Register(RegisterOp::Unary(op)), &[a], self.program.ty(a))
    }
    /// Two operands.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = Type::registers(self.dtype(a), self.widest(&[a, b]));
        self.one(Op::Register(RegisterOp::Binary(op)), &[a, b], ty)
    }
    /// A comparison.
    pub fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
        let ty = Type::registers(DType::Bool, self.widest(&[a, b]));
        self.one(Op::Register(RegisterOp::Compare(op)), &[a, b], ty)
    }
    /// `a` where `c`, else `b`.
    pub fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        let ty = Type::registers(self.dtype(a), self.widest(&[c, a, b]));
        self.one(Op::Register(RegisterOp::Select), &[c, a, b], ty)
    }
    /// `a * b + c`.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let ty = Type::registers(self.dtype(a), self.widest(&[a, b, c]));
        self.one(Op::Register(RegisterOp::Fma), &[a, b, c], ty)
    }
    /// Conversion by value; `a` itself if it is of that dtype.
    pub fn cast(&mut self, a: Value, dtype: DType) -> Value {
        if self.dtype(a) == dtype {
            return a;
        }
        let ty = Type::registers(dtype, self.program.count(a));
        self.one(Op::Register(RegisterOp::Cast), &[a], ty)
    }
    /// Same bits.
    pub fn bitcast(&mut self, a: Value, dtype: DType) -> Value {
        if self.dtype(a) == dtype {
            return a;
        }
        let ty = Type::registers(dtype, self.program.count(a));
        self.one(Op::Register(RegisterOp::Bitcast), &[a], ty)
    }
    /// Registers `from` of `a`; `a` itself if those are all of them in order.
    pub fn pick(&mut self, a: Value, from: Vec<u32>) -> Value {
        let count = self.program.count(a);
        let same =
            from.len() as u32 == count && from.iter().enumerate().all(|(i, &f)| i as u32 == f);
        if same {
            return a;
        }
        let ty = Type::registers(self.dtype(a), from.len() as u32);
        self.one(Op::Register(RegisterOp::Pick(from)), &[a], ty)
    }
    /// One register of `a`, `count` times.
    pub fn spread(&mut self, a: Value, count: u32) -> Value {
        if self.program.count(a) == count {
            return a;
        }
        self.pick(a, vec![0; count as usize])
    }
    /// One after the other.
    pub fn join(&mut self, parts: &[Value]) -> Value {
        if let [one] = parts {
            return *one;
        }
        let count = parts.iter().map(|&p| self.program.count(p)).sum();
        let dtype = parts.first().map_or(DType::I64, |&p| self.dtype(p));
        self.one(Op::Register(RegisterOp::Join), parts, Type::registers(dtype, count))
    }
    /// `a`, which is the same in every thread of the block.
    pub fn uniform(&mut self, a: Value) -> Value {
        self.one(Op::Register(RegisterOp::Uniform), &[a], self.program.ty(a))
    }
    /// Of the lane whose number differs in `mask`.
    pub fn shuffle_xor(&mut self, a: Value, mask: u8) -> Value {
        self.one(Op::Exchange(ExchangeOp::Xor(mask)), &[a], self.program.ty(a))
    }
    /// All threads of the block wait for each other.
    pub fn barrier(&mut self) {
        self.push(Op::Sync(SyncOp::Barrier), &[], &[]);
    }
}
