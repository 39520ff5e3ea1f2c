//! The statements of a program, numbered, with what is dead after each.

use crate::ops::*;
use crate::program::{Block, Program, Statement, Type, Value};
use crate::verify::walk;

#[derive(Debug)]
pub(super) struct Code<'p> {
    pub steps: Vec<Step<'p>>,
    /// The body is block 0.
    pub blocks: Vec<CodeBlock<'p>>,
    /// For each shared buffer, the bytes of the smallest elements that are accessed in it.
    pub units: Vec<u32>,
    /// The bytes of the smallest elements that are accessed in the device's memory.
    pub device_unit: u32,
}

#[derive(Debug)]
pub(super) struct Step<'p> {
    pub statement: &'p Statement,
    pub blocks: [u32; 2],
    /// Values that nobody uses after this.
    pub dies: Vec<Value>,
}

#[derive(Debug)]
pub(super) struct CodeBlock<'p> {
    pub arguments: &'p [Value],
    /// The first of its steps, which follow each other.
    pub first: u32,
    pub end: u32,
    parent: u32,
    owner: u32,
}

impl<'p> Code<'p> {
    pub fn new(program: &'p Program) -> Code<'p> {
        let (units, device_unit) = units(program);
        let mut code = Code { steps: Vec::new(), blocks: Vec::new(), units, device_unit };
        code.block(&program.body, 0, 0);
        code.last_uses(program);
        code
    }

    fn block(&mut self, block: &'p Block, parent: u32, owner: u32) -> u32 {
        let id = self.blocks.len() as u32;
        let first = self.steps.len() as u32;
        let end = first + block.statements.len() as u32;
        self.blocks.push(CodeBlock { arguments: &block.arguments, first, end, parent, owner });
        let steps = block.statements.iter();
        self.steps.extend(steps.map(|statement| Step {
            statement,
            blocks: [0; 2],
            dies: Vec::new(),
        }));
        for (n, statement) in block.statements.iter().enumerate() {
            for (k, nested) in statement.blocks.iter().take(2).enumerate() {
                let step = first + n as u32;
                self.steps[step as usize].blocks[k] = self.block(nested, id, step);
            }
        }
        id
    }

    fn last_uses(&mut self, program: &Program) {
        // Where each value is defined and, in that block, used last. Arguments of blocks live as long as the
        // statement that the block belongs to.
        let mut home = vec![None; program.values.len()];
        let mut last = vec![None; program.values.len()];
        for (id, block) in self.blocks.iter().enumerate() {
            for step in block.first..block.end {
                for value in &self.steps[step as usize].statement.results {
                    home[value.index()] = Some(id as u32);
                    last[value.index()] = Some((step, *value));
                }
            }
        }
        for (id, block) in self.blocks.iter().enumerate() {
            for step in block.first..block.end {
                for value in &self.steps[step as usize].statement.operands {
                    let Some(home) = home[value.index()] else { continue };
                    let (mut at, mut block) = (step, id as u32);
                    while block != home {
                        let inner = &self.blocks[block as usize];
                        (at, block) = (inner.owner, inner.parent);
                    }
                    let last = &mut last[value.index()];
                    *last = (*last).max(Some((at, *value)));
                }
            }
        }
        for (step, value) in last.into_iter().flatten() {
            self.steps[step as usize].dies.push(value);
        }
    }
}

/// The bytes of the smallest elements accessed: in each shared buffer, and in the device's memory.
fn units(program: &Program) -> (Vec<u32>, u32) {
    let mut shared = vec![16; program.shared.len()];
    let mut device = 8;
    let bytes = |value: Option<&Value>| match value.map(|&v| program.ty(v)) {
        Some(
            Type::Registers { dtype, .. }
            | Type::Pointer { dtype, .. }
            | Type::Fragment { dtype, .. },
        ) => dtype.bytes() as u32,
        _ => 1,
    };
    walk(&program.body, &mut |s| {
        let (first, last, result) = (s.operands.first(), s.operands.last(), s.results.first());
        let mut access = |buffer: crate::program::Shared, bytes: u32| {
            let unit = &mut shared[buffer.index()];
            *unit = bytes.min(*unit);
        };
        match &s.op {
            Op::Memory(MemoryOp::LoadShared { buffer, .. })
            | Op::Matrix(MatrixOp::LoadFragment { buffer, .. }) => access(*buffer, bytes(result)),
            Op::Memory(MemoryOp::StoreShared { buffer, .. }) => access(*buffer, bytes(last)),
            Op::Matrix(MatrixOp::StoreFragment { buffer, .. }) => access(*buffer, bytes(first)),
            Op::Matrix(MatrixOp::LoadMatrix { buffer, .. }) => access(*buffer, 2),
            Op::Matrix(MatrixOp::Wgmma(product)) => {
                access(product.a.buffer, 2);
                access(product.b.buffer, 2);
            }
            Op::Copy(CopyOp::Async { buffer, .. }) => {
                access(*buffer, bytes(first));
                device = device.min(bytes(first));
            }
            Op::Memory(_) | Op::Sync(SyncOp::CounterAdd | SyncOp::CounterWait) => {
                device = device.min(bytes(first));
            }
            _ => {}
        }
    });
    (shared, device)
}
