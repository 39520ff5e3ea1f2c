//! From `--model` to a model that is loaded.

use crate::options::ModelOptions;
use crate::report::{self, shown_bytes};
use crate::smollm2;
use anyhow::Context;
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{Model, Options, WeightType};
use metile_models::hub::{self, Download, Progress};
use metile_models::memory::{self, Estimate};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An opened checkpoint, not loaded yet.
pub struct Opened {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    options: ModelOptions,
}

/// A loaded model, and what loading took.
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// What was expected before it was loaded.
    pub estimate: Estimate,
    /// Reading weights and recording the decode step.
    pub time: Duration,
}

impl Opened {
    /// Finds and opens the checkpoint, and says on stderr what it leaves out.
    pub fn open(options: &ModelOptions) -> anyhow::Result<Opened> {
        let path = locate(&options.model, options.download)?;
        let checkpoint = Checkpoint::open(&path)?;
        for note in checkpoint.notes() {
            report::note(format_args!("note: {note}"));
        }
        Ok(Opened { checkpoint, options: options.clone() })
    }

    /// Room for `tokens` tokens, unless `--context` says how much there shall be; never more than the
    /// model was made for.
    pub fn room(&self, tokens: usize) -> usize {
        let most = self.checkpoint.config().context;
        self.options.context.unwrap_or(tokens.min(most))
    }

    /// Loads the model with room for `context` tokens, if that fits.
    pub fn load(&self, context: usize) -> anyhow::Result<Loaded> {
        let options = Options {
            context,
            chunk: self.options.chunk(),
            activations: self.options.activations.into(),
            rope_frequencies: self.options.rope_frequencies.into(),
            weights: WeightType::AsStored,
        };
        let estimate = memory::estimate(&self.checkpoint, context, options.chunk.min(context));
        memory::check(&estimate, memory::available())?;
        let start = Instant::now();
        let model = Model::load(&self.checkpoint, &self.options.device.open()?, &options)?;
        Ok(Loaded { model, estimate, time: start.elapsed() })
    }
}

/// The file or folder that `--model` means.
pub fn locate(name: &str, download: bool) -> anyhow::Result<PathBuf> {
    if name == "smollm2" && !Path::new(name).exists() {
        return smollm2::find();
    }
    let path = Path::new(name);
    if path.exists() || !looks_like_id(name) {
        // A path that is not there is an error of opening it, with its name.
        return Ok(path.to_path_buf());
    }
    let mut shown = Shown::default();
    let mut progress = |p: Progress<'_>| shown.update(p);
    let download = match download {
        true => Download::Yes(&mut progress),
        false => Download::No,
    };
    hub::resolve(name, download).with_context(|| format!("there is no file {name} either"))
}

/// `organization/name`, or a file in it: what is no path of its own.
fn looks_like_id(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    (2..=3).contains(&parts.len())
        && parts.iter().all(|part| !part.is_empty() && !part.starts_with('.'))
}

/// A download's progress on stderr, at every full percent.
#[derive(Default)]
struct Shown {
    file: String,
    percent: Option<u64>,
}

impl Shown {
    fn update(&mut self, p: Progress<'_>) {
        let percent = p.done.saturating_mul(100).checked_div(p.total).unwrap_or(100);
        if self.file == p.file && self.percent == Some(percent) {
            return;
        }
        self.file = p.file.to_owned();
        self.percent = Some(percent);
        let (done, total) = (shown_bytes(p.done), shown_bytes(p.total));
        report::progress(
            format_args!("{}: {done} of {total}, {percent} %", p.file),
            p.done == p.total,
        );
    }
}
