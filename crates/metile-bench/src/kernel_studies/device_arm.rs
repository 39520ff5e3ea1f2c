//! metile as an arm: launches over tensors of a device.

use super::harness::KernelArm;
use crate::environment::RUSTC;
use crate::fingerprint;
use crate::schema::{Arm, Fingerprints, GateClass, Precision, Role, Toolchain};
use crate::study::Refusal;
use half::{bf16, f16};
use metile::lang::element::HostElement;
use metile::lang::tensor::RawTensor;
use metile::runtime::cpu;
use metile::{CommandList, Device, Error, Tensor};
use std::collections::BTreeMap;

/// What records an arm's launches.
pub type Record = Box<dyn FnMut(&mut CommandList) -> Result<(), Error>>;

/// Whether recording belongs to what is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// `time`: replays of a list that was recorded before.
    Prepared,
    /// `time`: recording and one replay, launch after launch; `prepared`: replays alone.
    BuiltEachTime,
}

/// Launches over tensors of a device.
pub struct DeviceArm {
    device: Device,
    fresh: Vec<RawTensor>,
    kept: Vec<RawTensor>,
    /// Written by launches; the first is the output.
    written: Vec<RawTensor>,
    record: Record,
    list: CommandList,
    timing: Timing,
}

/// As a refusal.
pub fn broken(error: impl std::fmt::Display) -> Refusal {
    Refusal::Broken(error.to_string())
}

impl DeviceArm {
    /// An arm whose `record` reads `fresh` and `kept` and writes `written`, the first of which is the output. All
    /// are tensors without gaps.
    ///
    /// # Errors
    /// If a launch is refused.
    pub fn new(
        device: &Device,
        fresh: Vec<RawTensor>,
        kept: Vec<RawTensor>,
        written: Vec<RawTensor>,
        timing: Timing,
        mut record: Record,
    ) -> Result<DeviceArm, Refusal> {
        let mut list = CommandList::new(device);
        record(&mut list).map_err(broken)?;
        Ok(DeviceArm { device: device.clone(), fresh, kept, written, record, list, timing })
    }
}

/// `values` as the bytes of a tensor of `raw`'s format.
fn bytes_for(raw: &RawTensor, values: &[f32]) -> Result<Vec<u8>, Refusal> {
    let f = raw.format;
    if f == <f32 as metile::lang::element::Element>::FORMAT {
        Ok(f32::to_bytes(values))
    } else if f == <f16 as metile::lang::element::Element>::FORMAT {
        Ok(f16::to_bytes(&values.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>()))
    } else if f == <bf16 as metile::lang::element::Element>::FORMAT {
        Ok(bf16::to_bytes(&values.iter().map(|&v| bf16::from_f32(v)).collect::<Vec<_>>()))
    } else {
        Err(Refusal::Broken(format!("an input of {f}, which is not a float format")))
    }
}

fn read(raw: &RawTensor) -> Result<Vec<Vec<u8>>, Refusal> {
    let each = raw.parts.iter().map(|part| {
        let offset = usize::try_from(part.byte_offset).map_err(broken)?;
        let mut bytes = vec![0; part.storage.len().saturating_sub(offset)];
        part.storage.read(offset, &mut bytes).map_err(broken)?;
        Ok(bytes)
    });
    each.collect()
}

impl KernelArm for DeviceArm {
    fn series(&self) -> &[&'static str] {
        match self.timing {
            Timing::Prepared => &["time"],
            Timing::BuiltEachTime => &["time", "prepared"],
        }
    }

    fn set_inputs(&mut self, inputs: &[Vec<f32>]) -> Result<(), Refusal> {
        if inputs.len() != self.fresh.len() {
            return Err(Refusal::Broken(format!(
                "{} inputs for {}",
                inputs.len(),
                self.fresh.len()
            )));
        }
        for (raw, values) in self.fresh.iter().zip(inputs) {
            let bytes = bytes_for(raw, values)?;
            raw.parts[0].storage.write(0, &bytes).map_err(broken)?;
        }
        Ok(())
    }

    fn inputs_sha256(&mut self) -> Result<Option<String>, Refusal> {
        let mut all = Vec::new();
        for raw in self.fresh.iter().chain(&self.kept) {
            all.extend(read(raw)?);
        }
        Ok(Some(fingerprint::of_all(all.iter().map(Vec::as_slice))))
    }

    fn poison(&mut self) -> Result<(), Refusal> {
        // All bits set are a NaN in every float format.
        for part in self.written.iter().flat_map(|raw| &raw.parts) {
            part.storage.write(0, &vec![0xff; part.storage.len()]).map_err(broken)?;
        }
        Ok(())
    }

    fn launch(&mut self, series: &str, launches: u64) -> Result<Option<f64>, Refusal> {
        let build = self.timing == Timing::BuiltEachTime && series == "time";
        for _ in 0..launches {
            if build {
                let mut list = CommandList::new(&self.device);
                (self.record)(&mut list).map_err(broken)?;
                list.replay().map_err(broken)?;
            } else {
                self.list.replay().map_err(broken)?;
            }
        }
        Ok(None)
    }

    fn output(&mut self) -> Result<Vec<f32>, Refusal> {
        let Some(raw) = self.written.first() else {
            return Err(Refusal::Broken("an arm without an output".to_owned()));
        };
        let bytes = read(raw)?.swap_remove(0);
        let f = raw.format;
        if f == <f32 as metile::lang::element::Element>::FORMAT {
            Ok(f32::from_bytes(&bytes))
        } else if f == <f16 as metile::lang::element::Element>::FORMAT {
            Ok(f16::from_bytes(&bytes).into_iter().map(f16::to_f32).collect())
        } else {
            Ok(bf16::from_bytes(&bytes).into_iter().map(bf16::to_f32).collect())
        }
    }
}

/// A tensor of `values`, rounded to its type.
///
/// # Errors
/// If the device has no room.
pub fn tensor<T: FromF32, const R: usize>(
    device: &Device,
    shape: [usize; R],
    values: &[f32],
) -> Result<Tensor<T, R>, Refusal> {
    let values: Vec<T> = values.iter().map(|&v| T::from_f32(v)).collect();
    Tensor::from_slice(device, shape, &values).map_err(broken)
}

/// Float types of tensors.
pub trait FromF32: HostElement {
    /// The nearest value.
    fn from_f32(value: f32) -> Self;
}
impl FromF32 for f32 {
    fn from_f32(value: f32) -> f32 {
        value
    }
}
impl FromF32 for f16 {
    fn from_f32(value: f32) -> f16 {
        f16::from_f32(value)
    }
}
impl FromF32 for bf16 {
    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

/// metile's description as an arm.
pub fn described(
    device: &Device,
    name: &str,
    role: Role,
    what: &str,
    input: &str,
    weights: &str,
) -> Arm {
    Arm {
        name: name.to_owned(),
        role,
        what: what.to_owned(),
        versions: BTreeMap::from([("metile".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
        toolchain: match device.name() {
            "cpu" | "interpreter" => {
                Toolchain { compiler: RUSTC.to_owned(), path: "ahead_of_time".to_owned() }
            }
            other => Toolchain {
                compiler: format!("{RUSTC}, and the compiler of {other}"),
                path: "run_time".to_owned(),
            },
        },
        precision: Precision {
            input: input.to_owned(),
            weights: weights.to_owned(),
            multiply: "float32".to_owned(),
            accumulate: "float32".to_owned(),
            relaxed: false,
            probed: super::precision_probe::of_device(device),
        },
        threads: cpu::threads().ok().map(|n| n as u64),
        gate: GateClass::Outputs,
        settings: BTreeMap::from([
            ("device".to_owned(), device.name().to_owned()),
            ("simd".to_owned(), cpu::simd().to_owned()),
        ]),
    }
}

impl DeviceArm {
    /// Adds the programs that run, and what the device is given, as `name` and a number.
    pub fn add_fingerprints(&self, fingerprints: &mut Fingerprints, name: &str) {
        for (n, (program, emitted)) in self.list.programs().into_iter().enumerate() {
            let key = format!("{name}/{n}");
            fingerprints.kernels.insert(key.clone(), fingerprint::of_bytes(program.as_bytes()));
            fingerprints.emitted.insert(key, fingerprint::of_bytes(emitted.as_bytes()));
        }
    }
}
