//! Random programs on a device against the interpreter: the same bits, wherever operations are exact. For tests of devices, and
//! for `metile doctor`.

use metile_compiler::{Options, optimize};
use metile_ir::dtype::{DType, Format};
use metile_ir::interp::{self, Argument, Buffer, Failure, Interpreter};
use metile_ir::random::{Choices, Inputs, Limits, arguments, program};
use metile_ir::tile::verify::verify;
use metile_ir::tile::{Kernel, Type, Verified};

/// Why a device did not run a program to its end.
#[derive(Debug)]
pub enum NotRun {
    /// The program failed, as it may have to.
    Failure(Failure),
    /// The device can't run such programs, and says why.
    Refused(String),
    /// The device is at fault.
    Broken(String),
}

/// What comparing came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The device did as the interpreter.
    Same,
    /// The device can't run the program, and says why.
    Refused(String),
}

/// Which failure a device reports where several programs of a grid fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The first in the grid's order.
    First,
    /// Any.
    Any,
}

/// Operations whose results are exact, and no payloads of NaNs: what devices agree on to the bit.
pub fn exact() -> Limits {
    Limits { inexact: false, payloads: false, ..Limits::default() }
}

#[derive(Debug, PartialEq)]
enum Ran {
    Ended {
        bytes: Vec<Vec<u8>>,
        printed: Vec<String>,
    },
    /// Which programs ran before the failure is each device's own.
    Failed(String),
}

/// Runs a random program on the interpreter and, before and after the passes, through `run`.
///
/// # Errors
/// How they differ, with the program.
pub fn compare(
    seed: u64,
    limits: &Limits,
    reported: Reported,
    mut run: impl FnMut(
        &Verified,
        [u64; 3],
        &[Argument],
        &mut [Buffer<'_>],
    ) -> Result<interp::Outcome, NotRun>,
) -> Result<Verdict, String> {
    let mut choices = Choices::from_seed(seed, 3000);
    let kernel =
        verify(program(&mut choices, limits)).map_err(|e| format!("generator: {}", e[0]))?;
    let inputs = arguments(kernel.kernel(), &mut choices);
    let want = interpreted(&kernel, &inputs)?;
    let optimized =
        optimize(kernel.clone(), &Options::default()).map_err(|e| e.to_string())?.kernel;
    for kernel in [kernel, optimized] {
        let mut given = inputs.clone();
        let ran = run(&kernel, inputs.grid, &inputs.arguments, &mut given.buffers());
        let got = match ran {
            Ok(outcome) => {
                plain_nans(kernel.kernel(), &mut given);
                Ran::Ended { bytes: given.bytes, printed: in_order(&kernel, outcome.printed) }
            }
            Err(NotRun::Failure(Failure::Assertion(failure))) => Ran::Failed(failure.message),
            Err(NotRun::Failure(failure)) => return Err(failure.to_string()),
            Err(NotRun::Refused(why)) => return Ok(Verdict::Refused(why)),
            Err(NotRun::Broken(why)) => return Err(format!("{why}\n{}", kernel.kernel())),
        };
        let same = match (&want, &got, reported) {
            (Ran::Failed(_), Ran::Failed(_), Reported::Any) => true,
            _ => want == got,
        };
        if !same {
            return Err(format!(
                "{}; grid {:?} with {:?}\n{}",
                difference(&want, &got),
                inputs.grid,
                inputs.arguments,
                kernel.kernel(),
            ));
        }
    }
    Ok(Verdict::Same)
}

fn interpreted(kernel: &Verified, inputs: &Inputs) -> Result<Ran, String> {
    let mut interpreter = Interpreter::default();
    interpreter.options.check_races = false;
    interpreter.options.warn_division = false;
    interpreter.options.step_limit = Some(10_000_000);
    let mut inputs = inputs.clone();
    let (grid, arguments) = (inputs.grid, inputs.arguments.clone());
    match interpreter.run(kernel, grid, &arguments, &mut inputs.buffers()) {
        Ok(outcome) => {
            plain_nans(kernel.kernel(), &mut inputs);
            Ok(Ran::Ended { bytes: inputs.bytes, printed: in_order(kernel, outcome.printed) })
        }
        Err(Failure::Assertion(failure)) => Ok(Ran::Failed(failure.message)),
        Err(other) => Err(other.to_string()),
    }
}

/// All NaNs alike, in tensors of floats.
fn plain_nans(kernel: &Kernel, inputs: &mut Inputs) {
    for (&parameter, argument) in kernel.parameters.iter().zip(&inputs.arguments) {
        let Argument::Tensor(tensor) = argument else { continue };
        let Type::Tensor(ty) = kernel.ty(parameter) else { continue };
        let Format::Plain(dtype) = ty.format else { continue };
        if !dtype.is_float() {
            continue;
        }
        let part = tensor.parts[0];
        let width = dtype.bytes();
        let skip = part.byte_offset as usize % width;
        for element in inputs.bytes[part.buffer][skip..].chunks_exact_mut(width) {
            let mut word = [0; 4];
            word[..width].copy_from_slice(element);
            let bits = u32::from_le_bytes(word);
            let nan = match dtype {
                DType::F32 => f32::from_bits(bits).is_nan(),
                DType::F16 => bits & 0x7fff > 0x7c00,
                _ => bits & 0x7fff > 0x7f80,
            };
            if nan {
                element.fill(0xff);
            }
        }
    }
}

/// Programs that wait for each other print in whatever order they are resumed.
fn in_order(kernel: &Verified, mut lines: Vec<String>) -> Vec<String> {
    if kernel.kernel().persistent {
        lines.sort_unstable();
    }
    lines
}

fn difference(want: &Ran, got: &Ran) -> String {
    let (Ran::Ended { bytes, printed }, Ran::Ended { bytes: other, printed: lines }) = (want, got)
    else {
        return format!("wanted {want:?}, got {got:?}");
    };
    if printed != lines {
        return format!("printed {lines:?}, not {printed:?}");
    }
    let buffer = (0..bytes.len()).find(|&n| bytes[n] != other[n]).unwrap_or(0);
    let (a, b) = (&bytes[buffer], &other[buffer]);
    let at = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(0) / 8 * 8;
    let end = (at + 16).min(a.len());
    format!("buffer {buffer} from byte {at} wanted {:x?}, got {:x?}", &a[at..end], &b[at..end])
}
