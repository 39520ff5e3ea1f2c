//! The first operation of a kernel whose tile on a device differs from the interpreter's.

use crate::differential::NotRun;
use metile_compiler::observe::{observable, observe};
use metile_ir::arith::cast;
use metile_ir::dtype::DType;
use metile_ir::interp::{
    self, Argument, Buffer, Failure, Interpreter, Part, TensorArgument, programs,
};
use metile_ir::random::Inputs;
use metile_ir::scalar::Scalar;
use metile_ir::tile::{Kernel, OpId, Value, Verified, verify::verify};

/// An element of a tile that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The operation, in the kernel that was compared.
    pub op: OpId,
    /// Its result.
    pub value: Value,
    /// The program of the grid.
    pub program: [u64; 3],
    /// The element, an index an axis.
    pub element: Vec<usize>,
    /// What the interpreter has.
    pub wanted: Scalar,
    /// What the device has.
    pub got: Scalar,
}

/// Why devices could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The interpreter did not run the kernel to its end.
    #[error("on the interpreter: {0}")]
    Interpreter(Failure),
    /// The device did not.
    #[error("{0}")]
    Device(String),
    /// The kernel with the tile stored is none.
    #[error("internal error, please report it: {0}")]
    Internal(String),
}

/// Compares `kernel` operation by operation, each time with `inputs`; `run` is the device. Floats may differ by
/// `tolerance` of the larger one's size, or of 1; other values not at all. In a loop, the last round is compared.
///
/// # Errors
/// See [`CompareError`].
pub fn first_difference(
    kernel: &Kernel,
    inputs: &Inputs,
    tolerance: f64,
    mut run: impl FnMut(
        &Verified,
        [u64; 3],
        &[Argument],
        &mut [Buffer<'_>],
    ) -> Result<interp::Outcome, NotRun>,
) -> Result<Option<Difference>, CompareError> {
    let count = programs(inputs.grid).map_err(CompareError::Interpreter)? as usize;
    for (op, value) in observable(kernel) {
        let Some(tile) = kernel.ty(value).tile() else { continue };
        let observed = verify(observe(kernel.clone(), op, value))
            .map_err(|errors| CompareError::Internal(errors[0].to_string()))?;
        let elements = count * tile.shape.elements();
        let inputs = with_room(inputs, elements, tile.dtype);
        let (mut wanted, mut got) = (inputs.clone(), inputs.clone());
        let mut interpreter = Interpreter::default();
        interpreter.options.check_races = false;
        interpreter
            .run(&observed, inputs.grid, &inputs.arguments, &mut wanted.buffers())
            .map_err(CompareError::Interpreter)?;
        run(&observed, inputs.grid, &inputs.arguments, &mut got.buffers()).map_err(
            |why| match why {
                NotRun::Failure(failure) => CompareError::Device(failure.to_string()),
                NotRun::Refused(why) | NotRun::Broken(why) => CompareError::Device(why),
            },
        )?;
        let differs = (0..elements).find_map(|n| {
            let [wanted, got] = [&wanted, &got].map(|side| element(side, tile.dtype, n));
            (!alike(wanted, got, tolerance)).then_some((n, wanted, got))
        });
        if let Some((n, wanted, got)) = differs {
            let mut rest = n % tile.shape.elements();
            let mut element: Vec<usize> = Vec::new();
            for side in tile.shape.sides().into_iter().rev() {
                element.insert(0, rest % side);
                rest /= side;
            }
            let number = (n / tile.shape.elements()) as u64;
            let [x, y, _] = inputs.grid.map(|extent| extent.max(1));
            let program = [number % x, number / x % y, number / x / y];
            return Ok(Some(Difference { op, value, program, element, wanted, got }));
        }
    }
    Ok(None)
}

/// The inputs, and a tensor of `elements` zeros.
fn with_room(inputs: &Inputs, elements: usize, dtype: DType) -> Inputs {
    let mut inputs = inputs.clone();
    let part = Part { buffer: inputs.bytes.len(), byte_offset: 0 };
    inputs.bytes.push(vec![0; elements * dtype.bytes()]);
    inputs.writable.push(true);
    inputs.arguments.push(Argument::Tensor(TensorArgument {
        parts: vec![part],
        shape: vec![elements as u64],
        strides: vec![1],
    }));
    inputs
}

/// Element `n` of the tensor added last.
fn element(inputs: &Inputs, dtype: DType, n: usize) -> Scalar {
    let mut image = [0; 8];
    let bytes = inputs.bytes.last().and_then(|b| b.chunks_exact(dtype.bytes()).nth(n));
    let bytes = bytes.unwrap_or_default();
    image[..bytes.len()].copy_from_slice(bytes);
    Scalar::from_bits(dtype, u64::from_le_bytes(image))
}

fn alike(a: Scalar, b: Scalar, tolerance: f64) -> bool {
    if a == b || !a.dtype().is_float() {
        return a == b;
    }
    let wide = |s: Scalar| cast(s, DType::F32).as_f32().map_or(f64::NAN, f64::from);
    let (a, b) = (wide(a), wide(b));
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1.0)
}
