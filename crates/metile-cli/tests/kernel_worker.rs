//! metile as a worker of a study, asked by the studies' own client.

use metile_bench::baseline::{KernelRequest, KernelWorker, Limits, Tensor, Variant, Worker};
use serde_json::json;
use std::process::Command;

fn start() -> KernelWorker {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metile"));
    command.arg("kernel-worker");
    KernelWorker::new(Worker::spawn("metile", command, Limits::default()).unwrap()).unwrap()
}

fn request(op: &str, inputs: &[(&str, &[usize], Vec<f32>)]) -> KernelRequest {
    let tensor = |(name, shape, values): &(&str, &[usize], Vec<f32>)| {
        ((*name).to_owned(), Tensor::new(shape, values.clone()).unwrap())
    };
    KernelRequest {
        op: op.to_owned(),
        variant: Variant::Eager,
        parameters: json!({}).as_object().cloned().unwrap(),
        inputs: inputs.iter().map(tensor).collect(),
    }
}

#[test]
fn a_product_is_prepared_filled_run_and_read() {
    let mut worker = start();
    let ones = vec![1.0; 4];
    let inputs = [("a", &[2, 2][..], ones.clone()), ("b", &[2, 2][..], ones)];
    let prepared = worker.prepare(&request("gemm", &inputs)).unwrap();
    assert!(worker.output(&prepared).is_err(), "nothing was run since it was prepared");
    let a = Tensor::new(&[2, 2], vec![1.0f32, 2.0, 3.0, 4.0]).unwrap();
    worker.fill(&prepared, &[("a".to_owned(), a)]).unwrap();
    let times = worker.run(&prepared, 3).unwrap();
    assert_eq!(times.value.len(), 3);
    let output = worker.output(&prepared).unwrap();
    assert_eq!(output[0].tensor.to_f32().unwrap(), [3.0, 3.0, 7.0, 7.0]);
    worker.poison(&prepared).unwrap();
    assert!(worker.output(&prepared).is_err());
    worker.release(prepared).unwrap();
}

#[test]
fn what_does_not_fit_is_refused_and_the_worker_goes_on() {
    let mut worker = start();
    let of = |n: usize| vec![0.5f32; n];
    let wrong = request("gemm", &[("a", &[2, 3][..], of(6)), ("b", &[2, 2][..], of(4))]);
    assert!(worker.prepare(&wrong).is_err());
    assert!(worker.prepare(&request("fft", &[("x", &[2, 2][..], of(4))])).is_err());
    let right = request("softmax", &[("x", &[2, 2][..], of(4))]);
    let prepared = worker.prepare(&right).unwrap();
    worker.run(&prepared, 1).unwrap();
    assert_eq!(worker.output(&prepared).unwrap()[0].tensor.to_f32().unwrap(), [0.5; 4]);
}
