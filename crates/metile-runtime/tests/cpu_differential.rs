//! Random programs on the CPU against the interpreter: the same bits wherever operations are exact.
//!
//! `METILE_RANDOM_PROGRAMS` sets how many programs; `METILE_RANDOM_SEED` where they start.

use metile_compiler::cpu::lower;
use metile_compiler::{Options, optimize};
use metile_ir::dtype::{DType, Format};
use metile_ir::interp::{Argument, Failure, Interpreter};
use metile_ir::random::{Choices, Inputs, Limits, arguments, program};
use metile_ir::tile::verify::verify;
use metile_ir::tile::{Kernel, Type, Verified};
use metile_runtime::cpu::{RunError, run_program};

#[derive(Debug, PartialEq)]
enum Ran {
    Ended {
        bytes: Vec<Vec<u8>>,
        printed: Vec<String>,
    },
    /// Which programs ran before the failure is each device's own.
    Failed(String),
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

fn on_cpu(kernel: &Verified, inputs: &Inputs) -> Result<Ran, String> {
    let mut inputs = inputs.clone();
    let (grid, arguments) = (inputs.grid, inputs.arguments.clone());
    match run_program(kernel, grid, &arguments, &mut inputs.buffers()) {
        Ok(outcome) => {
            plain_nans(kernel.kernel(), &mut inputs);
            Ok(Ran::Ended { bytes: inputs.bytes, printed: in_order(kernel, outcome.printed) })
        }
        Err(RunError::Failure(Failure::Assertion(failure))) => Ok(Ran::Failed(failure.message)),
        Err(other) => Err(other.to_string()),
    }
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

fn check(seed: u64, limits: &Limits) -> Result<(), String> {
    let mut choices = Choices::from_seed(seed, 3000);
    let kernel =
        verify(program(&mut choices, limits)).map_err(|e| format!("generator: {}", e[0]))?;
    let inputs = arguments(kernel.kernel(), &mut choices);
    let want = interpreted(&kernel, &inputs)?;
    let optimized =
        optimize(kernel.clone(), &Options::default()).map_err(|e| e.to_string())?.kernel;
    for kernel in [kernel, optimized] {
        let got = on_cpu(&kernel, &inputs)?;
        if got != want {
            return Err(format!(
                "{}; grid {:?} with {:?}\n{}\n{}",
                difference(&want, &got),
                inputs.grid,
                inputs.arguments,
                kernel.kernel(),
                lower(&kernel),
            ));
        }
    }
    Ok(())
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn random_programs_agree_bit_for_bit() {
    let limits = Limits { inexact: false, payloads: false, ..Limits::default() };
    let first = number("METILE_RANDOM_SEED", 0);
    let seeds = first..first + number("METILE_RANDOM_PROGRAMS", 1_000);
    let mut failures: Vec<(u64, String)> =
        seeds.filter_map(|seed| Some((seed, check(seed, &limits).err()?))).collect();
    // The shortest says most.
    failures.sort_by_key(|(_, report)| report.len());
    if let Some((seed, report)) = failures.first() {
        let others: Vec<&str> =
            failures.iter().map(|(_, r)| r.lines().next().unwrap_or_default()).collect();
        panic!("{} programs differ: {others:#?}\nseed {seed}: {report}", failures.len());
    }
}
