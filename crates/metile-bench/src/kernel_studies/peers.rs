//! Baselines of kernel studies: libraries in worker processes.

use super::harness::KernelArm;
use super::precision_probe;
use crate::baseline::tensor::Values;
use crate::baseline::{
    Baseline, Device as Kind, KernelRequest, KernelWorker, Prepared, StartOptions, Tensor, Variant,
};
use crate::schema::{Arm, GateClass, Precision, Role, Toolchain};
use crate::study::{OpenError, Refusal};
use half::{bf16, f16};
use metile::runtime::cpu;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A library, used in one way.
#[derive(Clone)]
pub struct Peer {
    /// The arm's name: the baseline's, with `-compiled` if it is.
    pub name: String,
    variant: Variant,
    worker: Rc<RefCell<KernelWorker>>,
}

/// Element types that inputs are sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    BF16,
}

impl Sent {
    /// A tensor of this type.
    ///
    /// # Errors
    /// If there are not as many values as the shape has elements.
    pub fn tensor(self, shape: &[usize], values: &[f32]) -> Result<Tensor, Refusal> {
        let values: Values = match self {
            Sent::F32 => values.to_vec().into(),
            Sent::F16 => values.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>().into(),
            Sent::BF16 => values.iter().map(|&v| bf16::from_f32(v)).collect::<Vec<_>>().into(),
        };
        Tensor::new(shape, values).map_err(super::broken)
    }
}

/// An operation of a worker over named inputs.
#[derive(Clone)]
pub struct Operation {
    /// `gemm`, `project`, …
    pub name: &'static str,
    /// Its parameters.
    pub parameters: Value,
    /// Inputs that are drawn anew: name and shape, in the case's order.
    pub fresh: Vec<(&'static str, Vec<usize>)>,
    /// Type of the fresh inputs.
    pub sent: Sent,
    /// Weights.
    pub kept: Vec<(String, Tensor)>,
}

/// Starts the workers that `names` ask for, on the device of that name.
///
/// # Errors
/// If a name is unknown, or a baseline is not installed: the message says how it is.
pub fn start(names: &[String], device: &str) -> Result<Vec<Peer>, OpenError> {
    if names.iter().all(|name| name == "none") {
        return Ok(Vec::new());
    }
    let missing = |error: &dyn std::fmt::Display| OpenError::Missing(error.to_string());
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == device);
    let kind = kind.ok_or_else(|| OpenError::Missing(format!("no baselines on `{device}`")))?;
    let threads = cpu::threads().map_err(OpenError::Missing)?;
    let mut started: Vec<(Baseline, Rc<RefCell<KernelWorker>>)> = Vec::new();
    let mut peers = Vec::new();
    for name in names {
        if name == "none" {
            continue;
        }
        let (library, variant) = match name.strip_suffix("-compiled") {
            Some(library) => (library, Variant::Compiled),
            None => (name.as_str(), Variant::Eager),
        };
        let baseline = Baseline::parse(library).map_err(|e| missing(&e))?;
        let known = started.iter().find(|(b, _)| *b == baseline).map(|(_, worker)| worker.clone());
        let worker = match known {
            Some(worker) => worker,
            None => {
                let installed = baseline.locate(kind).map_err(|e| missing(&e))?;
                let worker =
                    installed.start(&StartOptions::threads(threads)).map_err(|e| missing(&e))?;
                let worker = KernelWorker::new(worker).map_err(|e| missing(&e))?;
                let worker = Rc::new(RefCell::new(worker));
                started.push((baseline, worker.clone()));
                worker
            }
        };
        peers.push(Peer { name: name.clone(), variant, worker });
    }
    Ok(peers)
}

impl Peer {
    /// A peer over a worker that runs already.
    pub fn of_worker(name: &str, worker: KernelWorker) -> Peer {
        let worker = Rc::new(RefCell::new(worker));
        Peer { name: name.to_owned(), variant: Variant::Eager, worker }
    }

    /// Whether the library does an operation, tried with extents of its own; or why not.
    pub fn can(&self, operation: &Operation) -> Result<(), String> {
        let request = self.request(operation);
        let mut worker = self.worker.borrow_mut();
        let prepared = worker.prepare(&request).map_err(|error| first_line(&error.to_string()))?;
        worker.release(prepared).map_err(|error| first_line(&error.to_string()))
    }

    fn request(&self, operation: &Operation) -> KernelRequest {
        let mut inputs = operation.kept.clone();
        for (name, shape) in &operation.fresh {
            let elements = shape.iter().product();
            // Any values will do until the first are filled in.
            if let Ok(tensor) = operation.sent.tensor(shape, &vec![0.5; elements]) {
                inputs.push(((*name).to_owned(), tensor));
            }
        }
        KernelRequest {
            op: operation.name.to_owned(),
            variant: self.variant,
            parameters: operation.parameters.as_object().cloned().unwrap_or_default(),
            inputs,
        }
    }

    /// An arm that does the operation.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn arm(&self, operation: &Operation) -> Result<WorkerArm, Refusal> {
        let prepared = self.worker.borrow_mut().prepare(&self.request(operation));
        Ok(WorkerArm {
            peer: self.clone(),
            prepared: Some(prepared.map_err(super::broken)?),
            fresh: operation.fresh.clone(),
            sent: operation.sent,
        })
    }

    /// What the probe of precision comes to, in products of float32.
    fn probed(&self) -> String {
        let side = 16;
        let length = precision_probe::LENGTH;
        let operation = Operation {
            name: "gemm",
            parameters: json!({}),
            fresh: vec![("a", vec![side, length]), ("b", vec![length, side])],
            sent: Sent::F32,
            kept: Vec::new(),
        };
        let sum = || -> Result<f32, Refusal> {
            let mut arm = self.arm(&operation)?;
            let (ones, factors) =
                (vec![1.0; side * length], vec![precision_probe::FACTOR; side * length]);
            arm.set_inputs(&[ones, factors])?;
            arm.launch("time", 1)?;
            let all = arm.output()?;
            Ok(all.iter().find(|v| **v != all[0]).copied().unwrap_or(all[0]))
        };
        sum().map_or_else(
            |why| format!("not probed: {}", first_line(&why.to_string())),
            precision_probe::name,
        )
    }

    /// The library's description as an arm.
    pub fn described(&self, role: Role, what: &str, input: &str, weights: &str) -> Arm {
        let probed = self.probed();
        let worker = self.worker.borrow();
        let hello = worker.worker().hello();
        let shown = |value: &Value| match value {
            Value::String(text) => crate::environment::shown_path(text),
            other => other.to_string(),
        };
        let settings: BTreeMap<String, String> =
            hello.settings.iter().map(|(name, value)| (name.clone(), shown(value))).collect();
        let compiled = self.variant == Variant::Compiled;
        Arm {
            name: self.name.clone(),
            role,
            what: what.to_owned(),
            versions: hello.versions.clone(),
            toolchain: Toolchain {
                compiler: format!("the vendor's, of the package {}", hello.worker),
                path: if compiled { "run_time" } else { "vendor_binary" }.to_owned(),
            },
            precision: Precision {
                input: input.to_owned(),
                weights: weights.to_owned(),
                multiply: "as the library does; TF32 off".to_owned(),
                accumulate: "as the library does; reductions in reduced precision off".to_owned(),
                relaxed: false,
                probed,
            },
            threads: cpu::threads().ok().map(|n| n as u64),
            gate: GateClass::Outputs,
            settings,
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// An operation that a worker has prepared.
pub struct WorkerArm {
    peer: Peer,
    prepared: Option<Prepared>,
    fresh: Vec<(&'static str, Vec<usize>)>,
    sent: Sent,
}

impl WorkerArm {
    fn with<T>(
        &self,
        ask: impl FnOnce(&mut KernelWorker, &Prepared) -> Result<T, crate::baseline::BaselineError>,
    ) -> Result<T, Refusal> {
        let prepared = self.prepared.as_ref();
        let prepared = prepared.ok_or_else(|| Refusal::Broken("it was released".to_owned()))?;
        ask(&mut self.peer.worker.borrow_mut(), prepared).map_err(super::broken)
    }
}

impl KernelArm for WorkerArm {
    fn series(&self) -> &[&'static str] {
        &["time"]
    }

    fn set_inputs(&mut self, inputs: &[Vec<f32>]) -> Result<(), Refusal> {
        let each = self.fresh.iter().zip(inputs);
        let tensors: Result<Vec<(String, Tensor)>, Refusal> = each
            .map(|((name, shape), values)| {
                Ok(((*name).to_owned(), self.sent.tensor(shape, values)?))
            })
            .collect();
        let tensors = tensors?;
        self.with(|worker, prepared| worker.fill(prepared, &tensors))
    }

    /// A worker's protocol has no way to read inputs back: a changed one shows in the outputs.
    fn inputs_sha256(&mut self) -> Result<Option<String>, Refusal> {
        Ok(None)
    }

    fn poison(&mut self) -> Result<(), Refusal> {
        self.with(|worker, prepared| worker.poison(prepared))
    }

    fn launch(&mut self, _series: &str, launches: u64) -> Result<Option<f64>, Refusal> {
        let times = usize::try_from(launches).map_err(super::broken)?;
        let samples = self.with(|worker, prepared| worker.run(prepared, times))?;
        Ok(Some(samples.value.iter().sum()))
    }

    fn output(&mut self) -> Result<Vec<f32>, Refusal> {
        let outputs = self.with(|worker, prepared| worker.output(prepared))?;
        match outputs.first() {
            Some(output) => output.tensor.to_f32().map_err(super::broken),
            None => Err(Refusal::Broken("a worker without an output".to_owned())),
        }
    }
}

impl Drop for WorkerArm {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            // A worker that does not answer is ended by its client.
            let _ = self.peer.worker.borrow_mut().release(prepared);
        }
    }
}

/// Parameters of an affine format.
pub fn affine(bits: u64, group: u64) -> Value {
    let mut parameters = Map::new();
    parameters.insert("bits".to_owned(), bits.into());
    parameters.insert("group".to_owned(), group.into());
    Value::Object(parameters)
}
