//! Models and kernels through the protocol, with the fake worker's toys. Needs `python3` alone.

mod worker;

use metile_bench::baseline::{
    BaselineError, Dtype, Generate, KernelRequest, KernelWorker, LogitsWanted, ModelWorker,
    StepWanted, Tensor, Variant,
};
use serde_json::Map;
use worker::{model, request, spawn};

fn greedy(ids: &[u32]) -> u32 {
    (3 * ids[ids.len() - 1] + ids.len() as u32 - 1) % 16
}

#[test]
fn a_model_step_by_step() {
    let mut model = model("well");
    let prompt = [3, 1, 4, 1, 5];
    let mut stops = Vec::new();
    model
        .prefill_with_stops::<BaselineError>(
            &prompt,
            &[2, 5],
            LogitsWanted::All,
            |model, stop, at| {
                assert_eq!(at.position, stop);
                assert_eq!(at.token, greedy(&prompt[..stop]));
                let logits = at.logits.unwrap();
                assert_eq!(logits.shape()[1], 16);
                let kv = model.kv(0..2, 0..stop)?;
                assert_eq!(kv.keys.shape(), [2, 1, stop, 4]);
                let tokens: Vec<f32> = kv.keys.to_f32().unwrap().chunks(4).map(|c| c[0]).collect();
                let want: Vec<f32> = prompt[..stop].iter().map(|&t| t as f32).collect();
                assert_eq!(tokens, want.repeat(2));
                stops.push(stop);
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(stops, [2, 5]);
    let step = model.step(9, StepWanted { logits: true, kv: true }).unwrap();
    assert_eq!((step.position, step.token), (6, greedy(&[3, 1, 4, 1, 5, 9])));
    let kv = step.kv.unwrap();
    assert_eq!(kv.keys.shape(), [2, 1, 1, 4]);
    assert_eq!(kv.values.to_f32().unwrap(), [5.0; 8]);
    assert_eq!(step.logits.unwrap().shape(), [16]);
    model.reset().unwrap();
    assert_eq!(model.prefill(&prompt, LogitsWanted::None).unwrap().position, 5);
}

#[test]
fn generations() {
    let mut model = model("well");
    let prompt = [3, 1, 4];
    let mut ids = prompt.to_vec();
    for _ in 0..6 {
        ids.push(greedy(&ids));
    }
    let got = model.generate(&Generate { prompt: &prompt, outputs: 6, forced: None }).unwrap();
    assert_eq!(got.ids, ids[3..]);
    assert_eq!((got.stamps_s.len(), got.cache_length), (6, 8));
    assert!(got.stamps_s[5] <= got.round_trip_s);

    let forced = [7, 7, 7];
    let got =
        model.generate(&Generate { prompt: &prompt, outputs: 4, forced: Some(&forced) }).unwrap();
    let fed = [3, 1, 4, 7, 7, 7];
    let want: Vec<u32> = (3..=6).map(|n| greedy(&fed[..n])).collect();
    assert_eq!(got.ids, want);
}

#[test]
fn what_does_not_fit_is_refused_and_the_model_still_usable() {
    let mut model = model("well");
    for ids in [vec![], vec![16], vec![1; 65]] {
        let error = model.prefill(&ids, LogitsWanted::None).unwrap_err();
        assert!(matches!(error, BaselineError::Refused { .. }), "{error}");
    }
    for (outputs, forced) in [(0, None), (63, None), (3, Some(&[1_u32][..]))] {
        let request = Generate { prompt: &[1, 2, 3], outputs, forced };
        let error = model.generate(&request).unwrap_err();
        assert!(matches!(error, BaselineError::Refused { .. }), "{error}");
    }
    model.prefill(&[1, 2], LogitsWanted::None).unwrap();
    for (layers, positions) in [(0..3, 0..1), (0..1, 0..3), (1..1, 0..1)] {
        let error = model.kv(layers, positions).unwrap_err();
        assert!(matches!(error, BaselineError::Refused { .. }), "{error}");
    }
    let error = model.stream_generate(&[1], 1).unwrap_err();
    assert!(matches!(error, BaselineError::Unsupported { .. }), "{error}");
    let mut other = request();
    other.checkpoint = "missing".into();
    let error = ModelWorker::load(spawn("well"), &other).err().unwrap();
    assert!(error.to_string().contains("missing is no toy"), "{error}");
}

#[test]
fn a_cache_of_another_length_is_not_believed() {
    let mut model = model("short_cache");
    let error =
        model.generate(&Generate { prompt: &[1, 2], outputs: 2, forced: None }).unwrap_err();
    assert!(error.to_string().contains("4 cache entries after 2 ids and 2 outputs"), "{error}");
}

fn double(x: &[f32]) -> KernelRequest {
    KernelRequest {
        op: "double".to_owned(),
        variant: Variant::Eager,
        parameters: Map::new(),
        inputs: vec![("x".to_owned(), Tensor::new(&[x.len()], x.to_vec()).unwrap())],
    }
}

#[test]
fn kernels() {
    let mut kernels = KernelWorker::new(spawn("well")).unwrap();
    let prepared = kernels.prepare(&double(&[1.0, 2.5])).unwrap();
    assert_eq!(prepared.outputs[0].dtype, Dtype::F32);
    assert_eq!(prepared.notes, ["a list a call"]);
    let samples = kernels.run(&prepared, 3).unwrap();
    assert_eq!(samples.value.len(), 3);
    let out = kernels.output(&prepared).unwrap();
    assert_eq!(out[0].tensor, Tensor::new(&[2], vec![2.0_f32, 5.0]).unwrap());
    kernels.poison(&prepared).unwrap();
    assert!(kernels.output(&prepared).unwrap_err().to_string().contains("poisoned"));
    let inputs = [("x".to_owned(), Tensor::new(&[2], vec![4.0_f32, 8.0]).unwrap())];
    kernels.fill(&prepared, &inputs).unwrap();
    kernels.run(&prepared, 1).unwrap();
    assert_eq!(kernels.output(&prepared).unwrap()[0].tensor.to_f32().unwrap(), [8.0, 16.0]);
    kernels.release(prepared).unwrap();
    let large = double(&vec![0.0; 1 << 19]);
    let error = kernels.prepare(&large).unwrap_err();
    assert!(error.to_string().contains("2097152 bytes, and the limit is 1048576"), "{error}");
}

#[test]
fn samples_that_cannot_be() {
    for (mode, said) in
        [("too_few_samples", "2 samples for 3 runs"), ("impossible_time", "s of samples within")]
    {
        let mut kernels = KernelWorker::new(spawn(mode)).unwrap();
        let prepared = kernels.prepare(&double(&[1.0])).unwrap();
        let error = kernels.run(&prepared, 3).unwrap_err();
        assert!(matches!(error, BaselineError::Inconsistent { .. }), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}
