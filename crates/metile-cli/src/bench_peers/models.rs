//! Reading and writing text, beside other engines with the same checkpoint.

use super::{Arm, Measured, process::Peers, process::Request};
use crate::model::Opened;
use crate::options::{ActivationsName, ModelOptions};
use crate::report;
use metile_models::decoder::{Logits, Model};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

/// Tokens of each case. A case of `decode` writes after one token that was read.
const PREFILL: usize = 512;
const DECODE: usize = 128;

const PEERS: [&str; 2] = ["llama.cpp", "transformers"];

/// Measures all cases that `wanted` asks for: the model with f32 and, if it has GGUF blocks, with q8
/// activations, and the peers, in turn.
///
/// # Errors
/// If the model can't be loaded or run, or the peers' process ends.
pub fn measure(
    name: &str,
    rounds: usize,
    peers: &mut Peers,
    wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(&Measured) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cases = [("prefill", PREFILL), ("decode", DECODE)];
    if !cases.iter().any(|(case, _)| wanted(case)) {
        return Ok(());
    }
    let load = |activations| -> anyhow::Result<Opened> {
        Opened::open(&ModelOptions { activations, ..ModelOptions::of(name) })
    };
    let opened = load(ActivationsName::F32)?;
    let path = opened.checkpoint.path().to_path_buf();
    let plain = RefCell::new(opened.load(PREFILL + DECODE)?.model);
    // Only weights in GGUF blocks meet quantized rows.
    let quantized = match load(ActivationsName::Q8)?.load(PREFILL + DECODE) {
        Ok(loaded) => Some(RefCell::new(loaded.model)),
        Err(why) => {
            report::note(format_args!("no q8 activations: {why:#}"));
            None
        }
    };
    for (case, tokens) in cases {
        if !wanted(case) {
            continue;
        }
        let mut arms: Vec<(String, Arm<'_>)> =
            vec![("metile f32".to_owned(), ours(&plain, case, tokens))];
        if let Some(quantized) = &quantized {
            arms.push(("metile q8".to_owned(), ours(quantized, case, tokens)));
        }
        for peer in PEERS {
            arms.push((peer.to_owned(), theirs(&path, peer, case, tokens)));
        }
        each(&super::in_turn(case, [tokens, 0], rounds, 1, arms, peers)?)?;
    }
    Ok(())
}

fn ours<'m>(model: &'m RefCell<Model>, case: &'static str, tokens: usize) -> Arm<'m> {
    Box::new(move |_, repeats| {
        let mut model = model.borrow_mut();
        let ids = ids(tokens + 1, model.config().vocabulary);
        let mut seconds = Vec::new();
        for _ in 0..repeats {
            model.keep(0);
            let decode = case == "decode";
            if decode {
                model.extend(&ids[..1], Logits::Last)?;
            }
            let start = Instant::now();
            if decode {
                for id in &ids[1..] {
                    model.extend(&[*id], Logits::Last)?;
                    model.choice()?;
                }
            } else {
                let chunk = model.options().chunk;
                for (n, part) in ids[..tokens].chunks(chunk).enumerate() {
                    let last = (n + 1) * chunk >= tokens;
                    model.extend(part, if last { Logits::Last } else { Logits::None })?;
                }
            }
            seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(Ok(seconds))
    })
}

fn theirs<'m>(path: &'m Path, peer: &'static str, case: &'static str, tokens: usize) -> Arm<'m> {
    Box::new(move |peers, repeats| {
        peers.time(&Request { peer, case, size: [tokens, 0], model: Some(path), repeats })
    })
}

/// Tokens: what they are does not matter to the time.
fn ids(count: usize, vocabulary: usize) -> Vec<u32> {
    (0..count).map(|n| (n * 7919 % vocabulary) as u32).collect()
}
