//! metile as a worker process: the protocol of `docs/src/baselines.md`, for kernels. A version of metile is measured
//! against another through it.

use super::device_arm::Timing;
use super::harness::{Grid, KernelArm};
use super::ops::{Form, Held, Op, Shape};
use super::weights::{GROUP, Storage, Weights};
use super::{device_arm::DeviceArm, precision_probe};
use crate::environment::RUSTC;
use crate::fingerprint;
use half::{bf16, f16};
use metile::Device;
use metile::runtime::cpu;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// The protocol's version.
const PROTOCOL: u32 = 1;
/// Bytes of a line at most.
const LONGEST_LINE: u64 = 16 << 20;

const OPERATIONS: [&str; 6] = [
    "kernel_prepare",
    "kernel_fill",
    "kernel_poison",
    "kernel_run",
    "kernel_output",
    "kernel_release",
];

/// A tensor as a line names it, read.
struct Given {
    dtype: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Given {
    fn floats(&self) -> Result<Vec<f32>, String> {
        let pairs = self.bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
        Ok(match self.dtype.as_str() {
            "f32" => {
                let each = self.bytes.chunks_exact(4);
                each.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
            "f16" => pairs.map(|b| f16::from_le_bytes(b).to_f32()).collect(),
            "bf16" => pairs.map(|b| bf16::from_le_bytes(b).to_f32()).collect(),
            other => return Err(format!("{other} is no float type")),
        })
    }

    fn grid(&self) -> Result<Grid, String> {
        match self.dtype.as_str() {
            "f32" => Ok(Grid::F32),
            "f16" => Ok(Grid::F16),
            "bf16" => Ok(Grid::BF16),
            other => Err(format!("{other} is no float type")),
        }
    }

    fn matrix(&self, name: &str) -> Result<[usize; 2], String> {
        <[usize; 2]>::try_from(self.shape.as_slice())
            .map_err(|_| format!("{name} has shape {:?}, not two axes", self.shape))
    }
}

struct Ready {
    arm: DeviceArm,
    fresh: Vec<(&'static str, Vec<f32>)>,
    shape: [usize; 2],
    dtype: &'static str,
    computed: bool,
}

struct Server {
    device: Device,
    folder: PathBuf,
    limit: u64,
    ready: BTreeMap<u64, Ready>,
    next: u64,
    written: u64,
}

/// Answers requests of `input` on `output` until there are no more. Tensors travel through `folder`.
///
/// # Errors
/// If the pipes fail, or a request is no JSON or too long.
pub fn serve(
    mut input: impl BufRead,
    mut output: impl Write,
    folder: &Path,
    limit: u64,
) -> io::Result<()> {
    let device = Device::cpu();
    let hello = json!({
        "protocol": PROTOCOL,
        "worker": "metile",
        "operations": OPERATIONS,
        "versions": {"metile": env!("CARGO_PKG_VERSION")},
        "settings": {
            "device": device.name(), "simd": cpu::simd(), "threads": cpu::threads().unwrap_or(0),
            "rustc": RUSTC, "precision": precision_probe::of_device(&device),
        },
    });
    let mut server = Server {
        device,
        folder: folder.to_owned(),
        limit,
        ready: BTreeMap::new(),
        next: 1,
        written: 0,
    };
    writeln!(output, "{hello}")?;
    output.flush()?;
    loop {
        let mut line = Vec::new();
        let read = io::Read::take(&mut input, LONGEST_LINE + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 > LONGEST_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a request that is too long"));
        }
        let request: Value = serde_json::from_slice(&line)?;
        let name = request["op"].as_str().unwrap_or_default();
        let answer = match server.answer(name, &request["arguments"]) {
            Ok(value) => json!({"id": request["id"], "ok": value}),
            Err((kind, message)) => {
                json!({"id": request["id"], "error": {"kind": kind, "message": message}})
            }
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

type Answer = Result<Value, (&'static str, String)>;

fn refused(message: impl ToString) -> (&'static str, String) {
    ("refused", message.to_string())
}

impl Server {
    fn answer(&mut self, name: &str, arguments: &Value) -> Answer {
        match name {
            "kernel_prepare" => self.prepare(arguments),
            "kernel_fill" => self.fill(arguments),
            "kernel_poison" => {
                let ready = self.at(arguments)?;
                ready.arm.poison().map_err(refused)?;
                ready.computed = false;
                Ok(json!({}))
            }
            "kernel_run" => self.run(arguments),
            "kernel_output" => self.output(arguments),
            "kernel_release" => {
                self.at(arguments)?;
                self.ready.remove(&arguments["handle"].as_u64().unwrap_or_default());
                Ok(json!({}))
            }
            other => Err((
                "unsupported",
                format!("no operation {other}; it has {}", OPERATIONS.join(", ")),
            )),
        }
    }

    fn at(&mut self, arguments: &Value) -> Result<&mut Ready, (&'static str, String)> {
        let handle = arguments["handle"].as_u64().unwrap_or_default();
        self.ready.get_mut(&handle).ok_or_else(|| refused(format!("no handle {handle}")))
    }

    fn inputs(&self, arguments: &Value) -> Result<BTreeMap<String, Given>, (&'static str, String)> {
        let lines = arguments["inputs"].as_object().ok_or_else(|| refused("no inputs"))?;
        let each = lines.iter().map(|(name, line)| Ok((name.clone(), self.get(line)?)));
        each.collect()
    }

    /// Reads a tensor that the driver wrote.
    fn get(&self, line: &Value) -> Result<Given, (&'static str, String)> {
        let wrong = |message: String| ("tensor", message);
        let file = line["file"].as_str().unwrap_or_default();
        if file.is_empty() || !file.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(wrong(format!("{file:?} is not a plain name")));
        }
        let dtype = line["dtype"].as_str().unwrap_or_default().to_owned();
        let axes = line["shape"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shape: Option<Vec<usize>> =
            axes.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect();
        let shape = shape.ok_or_else(|| wrong(format!("{file} has no shape")))?;
        let width: usize = match dtype.as_str() {
            "f32" | "i32" | "u32" => 4,
            "f16" | "bf16" => 2,
            "i64" => 8,
            "u8" => 1,
            other => return Err(wrong(format!("no element type {other}"))),
        };
        let size = shape.iter().try_fold(width, |n, &axis| n.checked_mul(axis));
        let path = self.folder.join(file);
        let found = std::fs::metadata(&path).map_err(|e| wrong(format!("{file}: {e}")))?.len();
        if size.map(|n| n as u64) != Some(found) || found > self.limit {
            return Err(wrong(format!(
                "{file} has {found} bytes, and {dtype} {shape:?} was announced"
            )));
        }
        let bytes = std::fs::read(&path).map_err(|e| wrong(format!("{file}: {e}")))?;
        if line["sha256"].as_str() != Some(&fingerprint::of_bytes(&bytes)) {
            return Err(wrong(format!("{file} has another SHA-256 than was announced")));
        }
        Ok(Given { dtype, shape, bytes })
    }

    fn prepare(&mut self, arguments: &Value) -> Answer {
        let inputs = self.inputs(arguments)?;
        if arguments["variant"].as_str().unwrap_or("eager") != "eager" {
            return Err(("unsupported", "metile has no other variant than eager".to_owned()));
        }
        let name = arguments["op"].as_str().unwrap_or_default();
        let parameters = &arguments["parameters"];
        let (op, held) = described(name, parameters, &inputs)?;
        let mut arm =
            op.on(&self.device, &held, Form::Library, Timing::Prepared).map_err(refused)?;
        let mut fresh = Vec::new();
        for spec in op.fresh() {
            let given =
                inputs.get(spec.name).ok_or_else(|| refused(format!("no input {}", spec.name)))?;
            fresh.push((spec.name, given.floats().map_err(refused)?));
        }
        let grid = op.fresh()[0].grid;
        let dtype = match grid {
            Grid::F32 => "f32",
            Grid::F16 => "f16",
            Grid::BF16 => "bf16",
        };
        let values: Vec<Vec<f32>> = fresh.iter().map(|(_, values)| values.clone()).collect();
        arm.set_inputs(&values).map_err(refused)?;
        arm.launch("time", 1).map_err(refused)?;
        arm.poison().map_err(refused)?;
        let (handle, shape) = (self.next, op.output());
        self.next += 1;
        self.ready.insert(handle, Ready { arm, fresh, shape, dtype, computed: false });
        Ok(json!({
            "handle": handle,
            "outputs": [{"name": "out", "dtype": dtype, "shape": shape}],
            "notes": ["kernels of the library, prepared; outputs allocated before"],
        }))
    }

    fn fill(&mut self, arguments: &Value) -> Answer {
        let inputs = self.inputs(arguments)?;
        let ready = self.at(arguments)?;
        for (name, given) in inputs {
            let known = ready.fresh.iter_mut().find(|(known, _)| *known == name);
            let (_, values) = known.ok_or_else(|| refused(format!("{name} can't be filled")))?;
            let floats = given.floats().map_err(refused)?;
            if floats.len() != values.len() {
                return Err(refused(format!(
                    "{name} has {} elements, not {}",
                    values.len(),
                    floats.len()
                )));
            }
            *values = floats;
        }
        let values: Vec<Vec<f32>> = ready.fresh.iter().map(|(_, values)| values.clone()).collect();
        ready.arm.set_inputs(&values).map_err(refused)?;
        Ok(json!({}))
    }

    fn run(&mut self, arguments: &Value) -> Answer {
        let times = arguments["times"].as_u64().unwrap_or_default();
        if !(1..=100_000).contains(&times) {
            return Err(refused(format!("{times} runs")));
        }
        let ready = self.at(arguments)?;
        let mut seconds = Vec::new();
        for _ in 0..times {
            let start = Instant::now();
            ready.arm.launch("time", 1).map_err(refused)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        ready.computed = true;
        Ok(json!({"seconds": seconds}))
    }

    fn output(&mut self, arguments: &Value) -> Answer {
        let ready = self.at(arguments)?;
        if !ready.computed {
            return Err(refused("no run since it was prepared or poisoned"));
        }
        let values = ready.arm.output().map_err(refused)?;
        let (shape, dtype) = (ready.shape, ready.dtype);
        let bytes: Vec<u8> = match dtype {
            "f16" => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
            "bf16" => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
            _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        let file = format!("out-{}", self.written);
        self.written += 1;
        let write =
            |path: PathBuf| std::fs::OpenOptions::new().write(true).create_new(true).open(path);
        write(self.folder.join(&file)).and_then(|mut f| f.write_all(&bytes)).map_err(refused)?;
        let tensor = json!({"file": file, "dtype": dtype, "shape": shape, "sha256": fingerprint::of_bytes(&bytes)});
        Ok(json!({"outputs": [{"name": "out", "tensor": tensor}]}))
    }
}

/// The operation that a request describes, with its weights.
fn described(
    name: &str,
    parameters: &Value,
    inputs: &BTreeMap<String, Given>,
) -> Result<(Op, Held), (&'static str, String)> {
    let get = |name: &str| inputs.get(name).ok_or_else(|| refused(format!("no input {name}")));
    let vector = |name: &str| -> Result<Rc<Vec<f32>>, (&'static str, String)> {
        Ok(Rc::new(get(name)?.floats().map_err(refused)?))
    };
    let rows = || -> Result<Shape, (&'static str, String)> {
        let x = get("x")?;
        let [rows, cols] = x.matrix("x").map_err(refused)?;
        Ok(Shape { rows, cols, t: x.grid().map_err(refused)? })
    };
    let known = ["eps", "rounding", "bits", "group"];
    let given = parameters
        .as_object()
        .map(|all| all.keys().cloned().collect::<Vec<_>>())
        .unwrap_or_default();
    if let Some(unknown) = given.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(refused(format!("no parameter {unknown}")));
    }
    if parameters["eps"].as_f64().is_some_and(|eps| (eps - 1e-5).abs() > 1e-9) {
        return Err(refused("norms are prepared with an eps of 1e-5"));
    }
    if parameters["rounding"].as_str().is_some_and(|policy| policy != "final") {
        return Err(("unsupported", "metile rounds in the final cast".to_owned()));
    }
    let expected = input_names(name, parameters["bits"].is_u64());
    if expected.is_empty() {
        return Err(("unsupported", format!("no operation {name}")));
    }
    if let Some(unknown) = inputs.keys().find(|name| !expected.contains(*name)) {
        return Err(refused(format!("no input {unknown}; there are {}", expected.join(", "))));
    }
    match name {
        "gemm" => {
            let (a, b) = (get("a")?, get("b")?);
            let ([m, k], [k2, n]) =
                (a.matrix("a").map_err(refused)?, b.matrix("b").map_err(refused)?);
            if k != k2 || a.dtype != b.dtype {
                return Err(refused(format!(
                    "{:?} {} by {:?} {}",
                    a.shape, a.dtype, b.shape, b.dtype
                )));
            }
            Ok((Op::Gemm { m, k, n, t: a.grid().map_err(refused)? }, Held::default()))
        }
        "softmax" => Ok((Op::Softmax(rows()?), Held::default())),
        "rms_norm" => {
            let held = Held { vectors: vec![vector("w")?], ..Held::default() };
            Ok((Op::RmsNorm(rows()?), held))
        }
        "layer_norm" => {
            let held = Held { vectors: vec![vector("w")?, vector("b")?], ..Held::default() };
            Ok((Op::LayerNorm(rows()?), held))
        }
        "project" | "swiglu_mlp" => {
            let Shape { rows, cols, .. } = rows()?;
            let names: &[&str] = if name == "project" { &["w"] } else { &["gate", "up", "down"] };
            let mut matrices = Vec::new();
            let mut stored = Storage::BF16;
            for name in names {
                let (weights, storage) = stored_weights(name, parameters, inputs)?;
                matrices.push(weights);
                stored = storage;
            }
            let [n, k] = matrices[0].shape;
            if k != cols {
                return Err(refused(format!("x has {cols} columns, and weights have {k}")));
            }
            let held = Held { matrices, ..Held::default() };
            Ok(match name {
                "project" => (Op::Project { rows, n, k, storage: stored }, held),
                _ => (Op::Mlp { rows, hidden: k, intermediate: n, storage: stored }, held),
            })
        }
        other => Err(("unsupported", format!("no operation {other}"))),
    }
}

/// Inputs of an operation; weights of packed formats are three.
fn input_names(op: &str, packed: bool) -> Vec<String> {
    let (mut names, weights): (Vec<String>, &[&str]) = match op {
        "gemm" => (vec!["a".to_owned(), "b".to_owned()], &[]),
        "project" => (vec!["x".to_owned()], &["w"]),
        "swiglu_mlp" => (vec!["x".to_owned()], &["gate", "up", "down"]),
        "rms_norm" => (vec!["x".to_owned(), "w".to_owned()], &[]),
        "layer_norm" => (vec!["x".to_owned(), "w".to_owned(), "b".to_owned()], &[]),
        "softmax" => (vec!["x".to_owned()], &[]),
        _ => (Vec::new(), &[]),
    };
    for name in weights {
        match packed {
            true => names.extend(["q", "scales", "biases"].map(|part| format!("{name}_{part}"))),
            false => names.push((*name).to_owned()),
        }
    }
    names
}

fn stored_weights(
    name: &str,
    parameters: &Value,
    inputs: &BTreeMap<String, Given>,
) -> Result<(Weights, Storage), (&'static str, String)> {
    let get = |name: String| inputs.get(&name).ok_or_else(|| refused(format!("no input {name}")));
    let Some(bits) = parameters["bits"].as_u64() else {
        let given = get(name.to_owned())?;
        let shape = given.matrix(name).map_err(refused)?;
        if given.dtype != "bf16" {
            return Err(("unsupported", format!("dense weights of {}", given.dtype)));
        }
        return Ok((
            Weights::of_arrays(shape, Storage::BF16, vec![given.bytes.clone()]),
            Storage::BF16,
        ));
    };
    let storage = match (bits, parameters["group"].as_u64()) {
        (4, Some(group)) if group == GROUP as u64 => Storage::Int4,
        (8, Some(group)) if group == GROUP as u64 => Storage::Int8,
        (bits, group) => {
            return Err(("unsupported", format!("{bits} bits in groups of {group:?}")));
        }
    };
    let words = get(format!("{name}_q"))?;
    let (scales, biases) = (get(format!("{name}_scales"))?, get(format!("{name}_biases"))?);
    let [n, packed] = words.matrix(name).map_err(refused)?;
    let shape = [n, packed * 32 / bits as usize];
    let arrays = vec![words.bytes.clone(), scales.bytes.clone(), biases.bytes.clone()];
    Ok((Weights::of_arrays(shape, storage, arrays), storage))
}
