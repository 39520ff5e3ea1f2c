//! From options to models: what all studies of models open.

use super::candidate::{Candidate, CandidateSetup};
use super::generation::Opponent;
use super::rival::{Rival, RivalSetup, WorkerRival};
use super::tokens_gate::Agreed;
use super::workload::Origin;
use crate::baseline::{self, Baseline, Dtype, Variant};
use crate::schema::GateClass;
use crate::study::{OpenError, OptionKind, OptionSpec, Setup};
use metile::runtime::cpu;
use metile_models::checkpoint::Checkpoint;
use metile_models::decoder::{RopeFrequencies, WeightType};
use metile_models::tokenizer::Tokenizer;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of every study of models.
pub const MODEL: OptionSpec = OptionSpec {
    name: "model",
    kind: OptionKind::Path,
    default: None,
    help: "The checkpoint: a folder with safetensors, or a GGUF file",
};
/// See [`MODEL`].
pub const DTYPE: OptionSpec = OptionSpec {
    name: "dtype",
    kind: OptionKind::OneOf(&["float32", "bfloat16", "float16", "stored"]),
    default: Some("float32"),
    help: "What weights are converted to on both sides; 16-bit types are gated against FP32",
};
/// See [`MODEL`].
pub const BASELINES: OptionSpec = OptionSpec {
    name: "baselines",
    kind: OptionKind::Texts,
    default: Some("mlx"),
    help: "Installed baselines, of mlx, pytorch, llama.cpp and candle",
};
/// See [`MODEL`].
pub const BASELINE_CHECKPOINT: OptionSpec = OptionSpec {
    name: "baseline-checkpoint",
    kind: OptionKind::Path,
    default: None,
    help: "What the baselines load, where they can't read --model: the same weights in another file",
};
/// See [`MODEL`].
pub const VARIANT: OptionSpec = OptionSpec {
    name: "variant",
    kind: OptionKind::OneOf(&["eager", "compiled"]),
    default: Some("eager"),
    help: "How the baselines are used",
};
/// See [`MODEL`].
pub const AGREED: OptionSpec = OptionSpec {
    name: "agreed-prompts",
    kind: OptionKind::Path,
    default: Some("reports/documents/smollm2-agreed.json"),
    help: "Prompts on which engines of different arithmetic agree, for baselines that show no state",
};
/// See [`MODEL`].
pub const ATTENTION: OptionSpec = OptionSpec {
    name: "attention-schedule",
    kind: OptionKind::Text,
    default: Some("auto"),
    help: "Schedule of the candidate's attention; `auto` is the device's own choice",
};
/// See [`MODEL`].
pub const PROJECTION: OptionSpec = OptionSpec {
    name: "projection-schedule",
    kind: OptionKind::Text,
    default: Some("auto"),
    help: "Schedule of the candidate's projections; `auto` is the device's own choice",
};
/// See [`MODEL`].
pub const TILE: OptionSpec = OptionSpec {
    name: "projection-tile",
    kind: OptionKind::Counts,
    default: None,
    help: "Tile M N K of the candidate's projections; left out: the device's own choice",
};
/// See [`MODEL`].
pub const PACK: OptionSpec = OptionSpec {
    name: "lossless-decode-weights",
    kind: OptionKind::Flag,
    default: Some("yes"),
    help: "Whether decode steps read FP32 weights from packed copies where that is lossless",
};

/// See [`MODEL`].
pub const ROPE: OptionSpec = OptionSpec {
    name: "rope-frequencies",
    kind: OptionKind::OneOf(&["f32", "exp2"]),
    default: Some("f32"),
    help: "The candidate's rotary frequencies: rounded once, or exp2 in FP32 as MLX computes them, which tells \
           at thousands of tokens",
};

/// What the options of a study of models come to.
pub struct Opened {
    /// The candidate.
    pub candidate: Candidate,
    /// What is set of it.
    pub settings: BTreeMap<String, String>,
    /// The baselines.
    pub opponents: Vec<Opponent>,
    /// The FP32 reference of a 16-bit run.
    pub reference: Option<Box<dyn Rival>>,
    /// The checkpoint, as the report has it, without storage.
    pub checkpoint: crate::schema::Checkpoint,
    /// Whether its weights are synthetic.
    pub synthetic: bool,
    /// Whether baselines read the same weights from another file.
    pub other_file: bool,
    /// Prompts for baselines that show no state.
    pub agreed: Option<Agreed>,
    /// Chart series: model and type.
    pub series: String,
    /// Disclosures that follow from the options.
    pub disclosures: Vec<String>,
}

fn missing(problem: impl std::fmt::Display) -> OpenError {
    OpenError::Missing(problem.to_string())
}

/// Whether `baseline` loads checkpoints such as `path`: folders with safetensors, or GGUF files.
fn takes(baseline: Baseline, path: &Path) -> bool {
    match baseline {
        Baseline::LlamaCpp => path.is_file(),
        Baseline::Candle => true,
        _ => path.is_dir(),
    }
}

/// The checkpoint that `--model` names.
///
/// # Errors
/// If none is named, or it can't be opened.
pub fn checkpoint(setup: &Setup) -> Result<(PathBuf, Checkpoint), OpenError> {
    let path = setup.chosen.path(MODEL.name)?;
    let path = path.ok_or_else(|| missing("--model: name a checkpoint"))?;
    let checkpoint = Checkpoint::open(&path).map_err(missing)?;
    Ok((path, checkpoint))
}

/// The tokenizer of `checkpoint`.
///
/// # Errors
/// If it has none.
pub fn tokenizer(checkpoint: &Checkpoint) -> Result<Tokenizer, OpenError> {
    Tokenizer::from_checkpoint(checkpoint).map_err(missing)
}

/// Schedules and tile as given. A device with one schedule takes no other: what can't be followed is refused.
fn schedules(setup: &Setup) -> Result<BTreeMap<String, String>, OpenError> {
    let mut settings = BTreeMap::new();
    let device = setup.device.name();
    for option in [ATTENTION.name, PROJECTION.name] {
        let asked = setup.chosen.text(option)?.unwrap_or("auto");
        if asked != "auto" {
            return Err(missing(format!(
                "--{option} {asked}: the device `{device}` has one schedule, `auto`"
            )));
        }
        settings.insert(option.to_owned(), format!("auto: the one of the device `{device}`"));
    }
    let tile = setup.chosen.counts(TILE.name)?;
    if !tile.is_empty() {
        return Err(missing(format!(
            "--{}: the device `{device}` chooses tiles by the number of rows",
            TILE.name
        )));
    }
    settings
        .insert(TILE.name.to_owned(), "chosen by the device for each number of rows".to_owned());
    settings.insert("math".to_owned(), "strict".to_owned());
    Ok(settings)
}

/// The kind of baseline for the candidate's device.
fn baseline_device(setup: &Setup) -> Result<baseline::Device, OpenError> {
    match setup.device.name() {
        "cpu" | "interp" | "interpreter" => Ok(baseline::Device::Cpu),
        name => baseline::Device::ALL
            .into_iter()
            .find(|device| device.name() == name)
            .ok_or_else(|| missing(format!("no baselines for the device `{name}`"))),
    }
}

/// Opens everything, with room for `capacity` tokens.
///
/// # Errors
/// If an option can't be followed, a checkpoint can't be loaded, or a baseline is not there.
pub fn open(setup: &Setup, capacity: usize) -> Result<Opened, OpenError> {
    let mut settings = schedules(setup)?;
    let device = baseline_device(setup)?;
    let (path, checkpoint) = self::checkpoint(setup)?;
    let origin = Origin::read(&path)?;
    let dtype = setup.chosen.text(DTYPE.name)?.unwrap_or("float32");
    let (weights, converted) = match dtype {
        "bfloat16" => (WeightType::BF16, Some(Dtype::Bf16)),
        "float16" => (WeightType::F16, Some(Dtype::F16)),
        "stored" => (WeightType::AsStored, None),
        _ => (WeightType::F32, Some(Dtype::F32)),
    };
    let sixteen = matches!(converted, Some(Dtype::Bf16 | Dtype::F16));
    let other = setup.chosen.path(BASELINE_CHECKPOINT.name)?;
    let variant = match setup.chosen.text(VARIANT.name)? {
        Some("compiled") => Variant::Compiled,
        _ => Variant::Eager,
    };
    let threads = cpu::threads().map_err(missing)?;
    let rival = |baseline, dtype| {
        let checkpoint = match &other {
            Some(other) if !takes(baseline, &path) => other,
            _ => &path,
        };
        let setup = RivalSetup { checkpoint, dtype, capacity, threads, variant };
        WorkerRival::start(baseline, device, &setup)
    };
    let mut opponents: Vec<Opponent> = Vec::new();
    let mut reference: Option<Box<dyn Rival>> = None;
    for name in setup.chosen.texts(BASELINES.name)? {
        let baseline = Baseline::parse(name).map_err(missing)?;
        // What shows no state keeps its own representation: it reads packed files.
        let convert = match baseline {
            Baseline::LlamaCpp | Baseline::Candle => None,
            _ => converted,
        };
        let opponent = Opponent::new(Box::new(rival(baseline, convert)?));
        if opponent.arm.gate == GateClass::State && sixteen && reference.is_none() {
            reference = Some(Box::new(rival(baseline, Some(Dtype::F32))?));
        }
        if opponents.iter().any(|known| known.arm.name == opponent.arm.name) {
            return Err(missing(format!("--baselines names {name} twice")));
        }
        opponents.push(opponent);
    }
    if opponents.is_empty() {
        return Err(missing("--baselines: name at least one"));
    }
    let agreed = match opponents.iter().any(|o| o.arm.gate == GateClass::Tokens) {
        true => Some(Agreed::read(&setup.chosen.path(AGREED.name)?.unwrap_or_default())?),
        false => None,
    };
    let needed = capacity.max(agreed.as_ref().map_or(0, Agreed::capacity));
    let pack = setup.chosen.flag(PACK.name)? && weights == WeightType::F32;
    let rope = setup.chosen.text(ROPE.name)?.unwrap_or("f32");
    let rope_frequencies = match rope {
        "exp2" => RopeFrequencies::Exp2,
        _ => RopeFrequencies::F32,
    };
    let candidate = Candidate::load(&CandidateSetup {
        checkpoint: &checkpoint,
        device: &setup.device,
        weights,
        capacity: needed,
        pack,
        rope_frequencies,
    })?;
    settings.insert(ROPE.name.to_owned(), rope.to_owned());
    let mut disclosures = Vec::new();
    if rope_frequencies == RopeFrequencies::Exp2 {
        disclosures.push(
            "the candidate's rotary frequencies are exp2 in float32 on its device, as MLX's are; by default they are \
             rounded once"
                .to_owned(),
        );
    }
    if origin.synthetic {
        disclosures.push("on synthetic weights".to_owned());
    }
    if sixteen {
        disclosures.push(match candidate.is_sixteen_bit() {
            true => format!(
                "the candidate's weights, cache and a prompt's activations in products are {dtype}; its stream, norms \
                 and sums are float32, and so are the activations of single steps"
            ),
            false => format!(
                "the candidate's weights are {dtype}; its activations, cache and sums are float32"
            ),
        });
        disclosures.push(
            "in timed runs each arm is fed the ids of its own validated run; the candidate chooses the same again, a library \
             at as many outputs at least as the FP32 reference decides, and the others are counted"
                .to_owned(),
        );
    }
    if candidate.is_packed() {
        disclosures.push(
            "lossless_weight_storage: decode projections and vocabulary head read packed copies of the same \
             values; prefill weights, activations, cache and sums stay float32"
                .to_owned(),
        );
    }
    if opponents.iter().any(|o| o.arm.gate == GateClass::Tokens) {
        disclosures.push(
            "gated by tokens alone, on agreed prompts; on the document each arm repeats its own ids"
                .to_owned(),
        );
    }
    let weight_bytes = candidate.weight_bytes();
    let described = origin.checkpoint(candidate.config(), dtype, weight_bytes, Vec::new());
    Ok(Opened {
        series: format!("{}, {dtype}", described.name),
        settings,
        opponents,
        reference,
        synthetic: origin.synthetic,
        other_file: other.is_some(),
        checkpoint: described,
        candidate,
        agreed,
        disclosures,
    })
}
