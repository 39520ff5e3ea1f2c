//! Kernels in a worker.

use super::command::Variant;
use super::error::BaselineError;
use super::exchange::TensorLine;
use super::process::{Answer, Worker};
use super::tensor::{Dtype, Tensor};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// An operation over given inputs. `docs/src/baselines.md` lists operations, their inputs and parameters.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// Such as `gemm` or `rms_norm`.
    pub op: String,
    /// How the library is used.
    pub variant: Variant,
    /// Such as `{"eps": 1e-5}`.
    pub parameters: Map<String, Value>,
    /// Inputs by name. Their dtype is the operation's.
    pub inputs: Vec<(String, Tensor)>,
}

/// An output as announced.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OutputShape {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its extents.
    pub shape: Vec<usize>,
}

/// A prepared operation: compiled, its inputs on the device, run once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    handle: u64,
    /// Its outputs.
    pub outputs: Vec<OutputShape>,
    /// What a report has to say of this arm: the library's function, where outputs are allocated, what was
    /// done because the library has no native operation.
    pub notes: Vec<String>,
}

/// An output's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its values.
    pub tensor: Tensor,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputLine {
    name: String,
    tensor: TensorLine,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputLines {
    outputs: Vec<OutputLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Samples {
    seconds: Vec<f64>,
}

/// A worker with kernels.
pub struct KernelWorker {
    worker: Worker,
}

impl KernelWorker {
    /// Of a started worker.
    ///
    /// # Errors
    /// If it has no kernels.
    pub fn new(worker: Worker) -> Result<KernelWorker, BaselineError> {
        if worker.hello().operations.iter().any(|op| op == "kernel_prepare") {
            return Ok(KernelWorker { worker });
        }
        Err(BaselineError::Unsupported {
            baseline: worker.name().to_owned(),
            op: "kernel_prepare".to_owned(),
            why: "it has no kernels".to_owned(),
        })
    }

    /// The process.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    fn arguments(
        &mut self,
        op: &str,
        mut arguments: Value,
        inputs: &[(String, Tensor)],
    ) -> Result<(Value, Vec<super::exchange::Outgoing>), BaselineError> {
        let mut files = Vec::with_capacity(inputs.len());
        let mut lines = Map::new();
        for (name, tensor) in inputs {
            let file = self.worker.put(op, tensor)?;
            lines.insert(name.clone(), json!(file.line));
            files.push(file);
        }
        arguments["inputs"] = Value::Object(lines);
        Ok((arguments, files))
    }

    /// Compiles an operation, moves its inputs to the device and runs it once, untimed.
    ///
    /// # Errors
    /// If the library has no such operation, or the inputs don't fit it.
    pub fn prepare(&mut self, request: &KernelRequest) -> Result<Prepared, BaselineError> {
        let arguments = json!({
            "op": request.op, "variant": request.variant, "parameters": request.parameters,
        });
        // The files are there until the worker has answered.
        let (arguments, _files) = self.arguments("kernel_prepare", arguments, &request.inputs)?;
        Ok(self.worker.call("kernel_prepare", arguments, None)?.value)
    }

    /// Replaces inputs by others of the same dtype and shape.
    ///
    /// # Errors
    /// If one is unknown, or of another dtype or shape.
    pub fn fill(
        &mut self,
        prepared: &Prepared,
        inputs: &[(String, Tensor)],
    ) -> Result<(), BaselineError> {
        let arguments = json!({ "handle": prepared.handle });
        let (arguments, _files) = self.arguments("kernel_fill", arguments, inputs)?;
        self.worker.call::<Map<String, Value>>("kernel_fill", arguments, None)?;
        Ok(())
    }

    /// Overwrites preallocated outputs with NaN (integers: all ones), and forgets allocated ones: what `output`
    /// gives next was computed by a later `run`.
    ///
    /// # Errors
    /// If the worker fails.
    pub fn poison(&mut self, prepared: &Prepared) -> Result<(), BaselineError> {
        let arguments = json!({ "handle": prepared.handle });
        self.worker.call::<Map<String, Value>>("kernel_poison", arguments, None)?;
        Ok(())
    }

    /// Runs it `times` times. Each sample is in seconds by the worker's clock, from before the operation is built
    /// or launched until its result is complete; the round trip is the driver's for all of them.
    ///
    /// # Errors
    /// If the worker fails, or answers with other counts or impossible times.
    pub fn run(
        &mut self,
        prepared: &Prepared,
        times: usize,
    ) -> Result<Answer<Vec<f64>>, BaselineError> {
        let arguments = json!({ "handle": prepared.handle, "times": times });
        let Answer { value: Samples { seconds }, round_trip_s } =
            self.worker.call("kernel_run", arguments, None)?;
        let sum: f64 = seconds.iter().sum();
        if seconds.len() != times || seconds.iter().any(|s| !(s.is_finite() && *s >= 0.0)) {
            let what = format!("{} samples for {times} runs: {seconds:?}", seconds.len());
            return Err(self.worker.inconsistent("kernel_run", what));
        }
        if sum > round_trip_s {
            let what = format!("{sum} s of samples within {round_trip_s} s");
            return Err(self.worker.inconsistent("kernel_run", what));
        }
        Ok(Answer { value: seconds, round_trip_s })
    }

    /// The outputs of the last run.
    ///
    /// # Errors
    /// If there was none since it was poisoned, or an output is not what was announced.
    pub fn output(&mut self, prepared: &Prepared) -> Result<Vec<Output>, BaselineError> {
        let arguments = json!({ "handle": prepared.handle });
        let lines: OutputLines = self.worker.call("kernel_output", arguments, None)?.value;
        let names = lines.outputs.iter().map(|line| &line.name);
        if !names.eq(prepared.outputs.iter().map(|output| &output.name)) {
            return Err(self.worker.inconsistent("kernel_output", "other outputs".to_owned()));
        }
        let mut outputs = Vec::with_capacity(lines.outputs.len());
        for (OutputLine { name, tensor }, announced) in lines.outputs.iter().zip(&prepared.outputs)
        {
            let tensor = self.worker.take("kernel_output", tensor)?;
            let tensor = tensor
                .expect(announced.dtype, &announced.shape)
                .map_err(|source| self.worker.tensor_error("kernel_output", source))?;
            outputs.push(Output { name: name.clone(), tensor });
        }
        Ok(outputs)
    }

    /// Frees what a prepared operation holds.
    ///
    /// # Errors
    /// If the worker fails.
    pub fn release(&mut self, prepared: Prepared) -> Result<(), BaselineError> {
        let arguments = json!({ "handle": prepared.handle });
        self.worker.call::<Map<String, Value>>("kernel_release", arguments, None)?;
        Ok(())
    }

    /// Quantizes `[n, k]` weights as the library does (MLX's affine format: `k` in groups, packed little-endian into
    /// u32): packed values, scales and biases.
    ///
    /// # Errors
    /// If the library has no such operation.
    pub fn quantize(
        &mut self,
        weights: &Tensor,
        bits: usize,
        group: usize,
    ) -> Result<[Tensor; 3], BaselineError> {
        let inputs = [("w".to_owned(), weights.clone())];
        let arguments = json!({ "bits": bits, "group": group });
        let (arguments, _files) = self.arguments("quantize", arguments, &inputs)?;
        let lines: OutputLines = self.worker.call("quantize", arguments, None)?.value;
        let names = ["q", "scales", "biases"];
        if !lines.outputs.iter().map(|line| line.name.as_str()).eq(names) {
            return Err(self.worker.inconsistent("quantize", "other outputs".to_owned()));
        }
        let mut tensors = Vec::with_capacity(3);
        for line in &lines.outputs {
            tensors.push(self.worker.take("quantize", &line.tensor)?);
        }
        tensors
            .try_into()
            .map_err(|_| self.worker.inconsistent("quantize", "other outputs".to_owned()))
    }
}
