//! `metile kernel diff`.

use crate::kernel::Named;
use crate::options::DeviceName;
use anyhow::bail;
use clap::Args;
use metile::Device;
use metile::runtime::first_difference::{Difference, first_difference};
use metile_compiler::gpu::Target;
use metile_device::sim;
use metile_ir::Diagnostic;
use metile_ir::random::{Choices, arguments};
use metile_ir::tile::{Kernel, infer::op_name};

/// Seeds tried for arguments that make a grid of at least one program.
const TRIES: u64 = 64;

/// Two devices to compare, and on what.
#[derive(Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    pub named: Named,
    /// The device to compare with the interpreter
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    /// What the arguments are drawn from
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How far floats may be apart, as a part of the larger one's size or of 1
    #[arg(long, default_value_t = 1e-4)]
    tolerance: f64,
}

impl Diff {
    /// Compares; says what was found.
    pub fn run(&self, kernel: &Kernel) -> anyhow::Result<String> {
        let drawn = (0..TRIES).map(|n| {
            let seed = self.seed.wrapping_add(n);
            arguments(kernel, &mut Choices::from_seed(seed, 3000))
        });
        let Some(inputs) = drawn.into_iter().find(|inputs| !inputs.grid.contains(&0)) else {
            bail!("no arguments for `{}` were found; try another --seed", kernel.name);
        };
        // Arguments at random make programs write to the same places: values are looked at, not races.
        let options =
            || sim::Options { seed: self.seed, max_findings: 0, ..sim::Options::default() };
        let device = match self.device {
            DeviceName::Interp => bail!("the interpreter is what devices are compared with"),
            DeviceName::Sim => Device::simulator_with(Target::HOPPER, options()),
            DeviceName::SimAmpere => Device::simulator_with(Target::AMPERE, options()),
            DeviceName::SimApple => Device::simulator_with(Target::APPLE, options()),
            other => other.open()?,
        };
        let found =
            first_difference(kernel, &inputs, self.tolerance, |k, grid, arguments, buffers| {
                device.run_program(k, grid, arguments, buffers)
            })?;
        let [x, y, z] = inputs.grid;
        Ok(match found {
            None => format!("no operation differs (grid {x} × {y} × {z}, seed {})", self.seed),
            Some(found) => render(kernel, &found),
        })
    }
}

fn render(kernel: &Kernel, found: &Difference) -> String {
    let op = &kernel.ops[found.op];
    let [x, y, z] = found.program;
    Diagnostic::error(format!(
        "`{}` is the first operation that differs: element {:?} in program ({x}, {y}, {z}) is {} on the interpreter and {} on the device",
        op_name(&op.kind),
        found.element,
        found.wanted,
        found.got
    ))
    .in_kernel(&kernel.name)
    .at(op.span)
    .render(&kernel.files)
}
