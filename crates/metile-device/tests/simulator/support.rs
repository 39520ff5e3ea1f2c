//! Small programs and their launches.

use metile_device::sim::{self, Failure, Kind, Launch, Memory, Options, Outcome};
use metile_device::*;
use metile_ir::dtype::DType::{self, *};
use metile_ir::span::{SourceFile, Span};

pub const LIMITS: Limits = Limits { shared_bytes: 48 << 10, threads: 1024 };

/// A builder whose statements get lines 1, 2, … as they are pushed through [`Test::line`].
pub struct Test {
    pub b: Builder,
    buffers: Vec<(Vec<u8>, bool)>,
    pub blocks: u64,
}

impl Test {
    pub fn new(warps: u32) -> Test {
        let mut b = Builder::new("test", warps);
        b.program.files = vec![SourceFile::named("test.rs")];
        Test { b, buffers: Vec::new(), blocks: 1 }
    }

    /// The statements from here on stand in this line.
    pub fn line(&mut self, line: u32) {
        self.b.span = Some(Span { file: 0, line, column: 1 });
    }

    fn buffer(&mut self, dtype: DType, bytes: Vec<u8>, writable: bool) -> Value {
        let parameter = self.buffers.len() as u16;
        self.buffers.push((bytes, writable));
        let word = Word::Pointer { parameter, array: 0, dtype, writable };
        self.b.program.words.push(word);
        self.b.position(PositionOp::Word(self.b.program.words.len() as u32 - 1))
    }

    /// A tensor of `i32` that is only read.
    pub fn input(&mut self, values: &[i32]) -> Value {
        self.buffer(I32, values.iter().flat_map(|v| v.to_le_bytes()).collect(), false)
    }

    /// A tensor that is written, zero at first.
    pub fn output(&mut self, dtype: DType, count: usize) -> Value {
        self.buffer(dtype, vec![0; count * dtype.bytes()], true)
    }

    pub fn done(self) -> Ready {
        Ready { program: self.b.finish(), buffers: self.buffers, blocks: self.blocks }
    }

    pub fn thread(&mut self) -> Value {
        self.b.position(PositionOp::Thread)
    }
    pub fn int(&mut self, n: i64) -> Value {
        self.b.int(I32, n)
    }
    pub fn add(&mut self, a: Value, c: Value) -> Value {
        self.b.binary(BinaryOp::Add, a, c)
    }
    pub fn less(&mut self, a: Value, n: i64) -> Value {
        let n = self.b.int(I32, n);
        self.b.compare(CompareOp::Lt, a, n)
    }
    pub fn load(&mut self, pointer: Value, at: Value) -> Value {
        let Type::Pointer { dtype, .. } = self.b.program.ty(pointer) else { panic!() };
        let op = MemoryOp::Load { width: 1, immediates: vec![0], masked: false, constant: false };
        self.b.one(Op::Memory(op), &[pointer, at], Type::one(dtype))
    }
    pub fn store(&mut self, pointer: Value, at: Value, value: Value) {
        let immediates = (0..i64::from(self.b.program.count(value))).collect();
        let op = MemoryOp::Store { width: 1, immediates, masked: false };
        self.b.push(Op::Memory(op), &[pointer, at, value], &[]);
    }
    pub fn store_where(&mut self, mask: Value, pointer: Value, at: Value, value: Value) {
        let op = MemoryOp::Store { width: 1, immediates: vec![0], masked: true };
        self.b.push(Op::Memory(op), &[pointer, at, mask, value], &[]);
    }
    pub fn load_shared(&mut self, buffer: Shared, at: Value) -> Value {
        let op = MemoryOp::LoadShared { buffer, width: 1, immediates: vec![0] };
        self.b.one(Op::Memory(op), &[at], Type::one(I32))
    }
    pub fn store_shared(&mut self, buffer: Shared, at: Value, value: Value) {
        let op = MemoryOp::StoreShared { buffer, width: 1, immediates: vec![0], masked: false };
        self.b.push(Op::Memory(op), &[at, value], &[]);
    }
    pub fn store_shared_where(&mut self, mask: Value, buffer: Shared, at: Value, value: Value) {
        let op = MemoryOp::StoreShared { buffer, width: 1, immediates: vec![0], masked: true };
        self.b.push(Op::Memory(op), &[at, mask, value], &[]);
    }
    pub fn sync(&mut self, op: SyncOp) {
        self.b.push(Op::Sync(op), &[], &[]);
    }

    pub fn yields(&mut self, values: &[Value]) -> Block {
        self.b.push(Op::Control(ControlOp::Yield), values, &[]);
        self.b.end()
    }

    /// `if condition { then } else { other }`, each giving values of `types`.
    pub fn branch(
        &mut self,
        condition: Value,
        types: &[Type],
        then: impl FnOnce(&mut Test) -> Vec<Value>,
        other: impl FnOnce(&mut Test) -> Vec<Value>,
    ) -> Vec<Value> {
        self.b.begin(vec![]);
        let values = then(self);
        let then = self.yields(&values);
        self.b.begin(vec![]);
        let values = other(self);
        let other = self.yields(&values);
        let results: Vec<Value> = types.iter().map(|&t| self.b.value(t)).collect();
        let op = Op::Control(ControlOp::If);
        self.b.push_with(op, vec![condition], results.clone(), vec![then, other]);
        results
    }

    pub fn when(&mut self, condition: Value, then: impl FnOnce(&mut Test)) {
        self.branch(
            condition,
            &[],
            |t| {
                then(t);
                vec![]
            },
            |_| vec![],
        );
    }

    /// `for index in low..high step step` carrying `init`.
    pub fn count(
        &mut self,
        (low, high, step): (Value, Value, Value),
        init: &[Value],
        body: impl FnOnce(&mut Test, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types: Vec<Type> = init.iter().map(|&v| self.b.program.ty(v)).collect();
        let index = self.b.value(self.b.program.ty(low));
        let carried: Vec<Value> = types.iter().map(|&t| self.b.value(t)).collect();
        self.b.begin([index].into_iter().chain(carried.iter().copied()).collect());
        let values = body(self, index, &carried);
        let block = self.yields(&values);
        let results: Vec<Value> = types.iter().map(|&t| self.b.value(t)).collect();
        let operands = [low, high, step].into_iter().chain(init.iter().copied()).collect();
        let op = Op::Control(ControlOp::For { unroll: false });
        self.b.push_with(op, operands, results.clone(), vec![block]);
        results
    }
}

/// A program with its launch.
pub struct Ready {
    pub program: Program,
    buffers: Vec<(Vec<u8>, bool)>,
    blocks: u64,
}

impl Ready {
    /// Runs with a seed; gives what happened and the last buffer as `i32`.
    pub fn run(&self, seed: u64) -> (Result<Outcome, Failure>, Vec<i32>) {
        let (outcome, mut buffers) = self.run_all(&Options { seed, ..Options::default() });
        let last = buffers.pop().unwrap_or_default();
        let values = last.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
        (outcome, values)
    }

    pub fn run_all(&self, options: &Options) -> (Result<Outcome, Failure>, Vec<Vec<u8>>) {
        let program = self.program.clone();
        let text = program.to_string();
        let verified = verify(program, &LIMITS).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let mut buffers = self.buffers.clone();
        let mut memory = Memory::new();
        let words: Vec<u64> = buffers
            .iter_mut()
            .enumerate()
            .map(|(n, (bytes, writable))| match writable {
                true => memory.write(format!("t{n}"), bytes),
                false => memory.read(format!("t{n}"), bytes),
            })
            .collect();
        let launch = Launch { blocks: self.blocks, words: &words, memory: &mut memory };
        let outcome = sim::run(&verified, launch, options);
        (outcome, buffers.into_iter().map(|b| b.0).collect())
    }

    /// Checks, with several seeds, that exactly this is found at this line.
    pub fn finds(&self, kind: Kind, line: u32) {
        for seed in 0..8 {
            let outcome = self.run(seed).0.unwrap();
            let found: Vec<(Kind, Option<u32>)> = outcome
                .findings
                .iter()
                .map(|f| (f.kind, f.diagnostic.span.map(|s| s.line)))
                .collect();
            assert!(
                found.contains(&(kind, Some(line))) && found.iter().all(|f| f.0 == kind),
                "seed {seed}: {:#?}",
                outcome.findings
            );
        }
    }

    /// Checks, with several seeds, that statements of these lines race: which is accused depends on which came first.
    pub fn races(&self, kind: Kind, lines: [u32; 2]) {
        for seed in 0..8 {
            let outcome = self.run(seed).0.unwrap();
            let race = outcome.findings.iter().any(|f| {
                let accused = f.diagnostic.span.map(|s| s.line);
                let other = f.diagnostic.related.first().map(|r| r.0.line);
                f.kind == kind
                    && accused != other
                    && [accused, other].map(|l| lines.contains(&l.unwrap_or(0))) == [true; 2]
            });
            let rest =
                outcome.findings.iter().all(|f| f.kind == kind || f.kind == Kind::Uninitialized);
            assert!(race && rest, "seed {seed}: {:#?}", outcome.findings);
        }
    }

    /// Checks, with several seeds, that nothing is found and the last buffer is this.
    pub fn gives(&self, expected: &[i32]) {
        for seed in 0..8 {
            let (outcome, values) = self.run(seed);
            let outcome = outcome.unwrap();
            assert!(outcome.findings.is_empty(), "seed {seed}: {:#?}", outcome.findings);
            assert_eq!(values, expected, "seed {seed}");
        }
    }
}
