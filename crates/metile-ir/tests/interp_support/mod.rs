//! Kernels from text, memory, and launches, for the tests of the interpreter.
#![allow(dead_code)]

use metile_ir::interp::{
    Argument, Buffer, Failure, Interpreter, Options, Outcome, Part, TensorArgument,
};
use metile_ir::tile::{Verified, parse::parse, verify::verify};

pub fn kernel(text: &str) -> Verified {
    let kernel = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(kernel).unwrap_or_else(|e| panic!("{}\n{text}", e[0]))
}

/// Buffers of bytes.
pub struct Memory(pub Vec<Vec<u8>>);

impl Memory {
    pub fn new() -> Memory {
        Memory(Vec::new())
    }
    /// Adds a buffer that holds `data`.
    pub fn with<T: bytemuck::NoUninit>(mut self, data: &[T]) -> Memory {
        self.0.push(bytemuck::cast_slice(data).to_vec());
        self
    }
    pub fn get<T: bytemuck::AnyBitPattern>(&self, n: usize) -> Vec<T> {
        self.0[n].chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }
    pub fn run(
        &mut self,
        text: &str,
        grid: [u64; 3],
        arguments: &[Argument],
    ) -> Result<Outcome, Failure> {
        self.run_with(Options::default(), text, grid, arguments)
    }
    pub fn run_with(
        &mut self,
        options: Options,
        text: &str,
        grid: [u64; 3],
        arguments: &[Argument],
    ) -> Result<Outcome, Failure> {
        let mut buffers: Vec<Buffer<'_>> = self.0.iter_mut().map(|b| Buffer::Write(b)).collect();
        Interpreter { options }.run(&kernel(text), grid, arguments, &mut buffers)
    }
}

/// The whole of buffer `n`, row-major.
pub fn tensor(n: usize, shape: &[u64]) -> Argument {
    let mut step = 1;
    let mut strides: Vec<i64> = Vec::new();
    for &extent in shape.iter().rev() {
        strides.insert(0, step);
        step *= extent as i64;
    }
    strided(n, 0, shape, &strides)
}

pub fn strided(n: usize, byte_offset: u64, shape: &[u64], strides: &[i64]) -> Argument {
    Argument::Tensor(item(n, byte_offset, shape, strides))
}

pub fn item(n: usize, byte_offset: u64, shape: &[u64], strides: &[i64]) -> TensorArgument {
    TensorArgument {
        parts: vec![Part { buffer: n, byte_offset }],
        shape: shape.to_vec(),
        strides: strides.to_vec(),
    }
}

/// Runs one program of a kernel that has only `%out: mut tensor<dtype, 1>` of `n` elements, and the
/// operations of `body`, which name the result `%r: dtype[n]`.
pub fn compute<T: bytemuck::Pod>(dtype: &str, n: usize, body: &str) -> Vec<T> {
    let text = format!(
        "kernel @k(%out: mut tensor<{dtype}, 1>) {{ {body}
           %at = arange : i64[{n}]
           store %out[%at], %r
           return }}"
    );
    let mut memory = Memory::new().with(&vec![T::zeroed(); n]);
    memory.run(&text, [1, 1, 1], &[tensor(0, &[n as u64])]).unwrap();
    memory.get(0)
}

/// As [`compute`], from inputs `%a: from[m]`.
pub fn apply<A: bytemuck::Pod, T: bytemuck::Pod>(
    from: &str,
    a: &[A],
    to: &str,
    n: usize,
    body: &str,
) -> Vec<T> {
    let m = a.len();
    let zero = match from {
        "bool" => "false",
        "f32" | "f16" | "bf16" => "0.0",
        _ => "0",
    };
    let text = format!(
        "kernel @k(%in: tensor<{from}, 1>, %out: mut tensor<{to}, 1>) {{
           %lanes = arange : i64[{m}]
           %none = constant {zero} : {from}
           %a = load %in[%lanes], %none : {from}[{m}]
           {body}
           %at = arange : i64[{n}]
           store %out[%at], %r
           return }}"
    );
    let mut memory = Memory::new().with(a).with(&vec![T::zeroed(); n]);
    memory.run(&text, [1, 1, 1], &[tensor(0, &[m as u64]), tensor(1, &[n as u64])]).unwrap();
    memory.get(1)
}
