//! Options that several commands share.

use clap::{Args, ValueEnum};
use metile::Device;
use metile_compiler::gpu::Target;
use metile_models::decoder::{Activations, RopeFrequencies};
use metile_models::sampling::Settings;

/// Prompt tokens that are read at a time, unless the user says otherwise; and on a GPU, which fewer don't fill.
const CHUNK: usize = 256;
const GPU_CHUNK: usize = 2048;

/// Which model, where, and how it is set up.
#[derive(Clone, Debug, Args)]
pub struct ModelOptions {
    /// A .gguf file, a folder with safetensors and config.json, a Hugging Face id from the local
    /// cache, or `smollm2`
    #[arg(long, value_name = "PATH|ID|smollm2")]
    pub model: String,
    /// Fetch what the cache lacks of a Hugging Face id
    #[arg(long)]
    pub download: bool,
    /// Where to compute; `interp` is the slow oracle
    #[arg(long, value_enum, default_value_t = DeviceName::default())]
    pub device: DeviceName,
    /// What projections read: f32; rows quantized to 8 bits, where the weights are GGUF blocks; or rows
    /// in the weights' own 16-bit type, and the K/V cache in it. `auto` is the last on a GPU, where the weights
    /// allow it, else f32
    #[arg(long, value_enum, default_value_t = ActivationsName::Auto)]
    pub activations: ActivationsName,
    /// Prompt tokens read at a time; 256 by default, on a GPU 2048
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub chunk: Option<usize>,
    /// Tokens that there is room for; at most the model's own context
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub context: Option<usize>,
    /// Round rotary frequencies to bf16, as Transformers has them after a model was cast to bf16; to
    /// compare with numbers made so
    #[arg(long, value_enum, default_value_t = FrequenciesName::F32)]
    pub rope_frequencies: FrequenciesName,
}

impl ModelOptions {
    /// Prompt tokens read at a time.
    pub fn chunk(&self) -> usize {
        let gpu = matches!(self.device, DeviceName::Cuda | DeviceName::Metal);
        self.chunk.unwrap_or(if gpu { GPU_CHUNK } else { CHUNK })
    }

    /// A model with all else as it is by default.
    pub fn of(model: &str) -> ModelOptions {
        ModelOptions {
            model: model.to_owned(),
            download: false,
            device: DeviceName::default(),
            activations: ActivationsName::Auto,
            chunk: None,
            context: None,
            rope_frequencies: FrequenciesName::F32,
        }
    }
}

/// How tokens are drawn.
#[derive(Clone, Debug, Args)]
pub struct SamplingOptions {
    /// 0 takes the likeliest token always
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Draw from the K likeliest tokens; 0: from all
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Draw from the fewest tokens whose probabilities sum to P
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Draw from tokens with at least this share of the greatest probability
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub min_p: f32,
    /// Make tokens of the text so far less likely; 1: not
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_negative_numbers = true)]
    pub repetition_penalty: f32,
    /// One seed, one text
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

impl SamplingOptions {
    /// The settings of the sampler.
    pub fn settings(&self) -> Settings {
        Settings {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
        }
    }
}

/// A device by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DeviceName {
    /// The processor.
    #[default]
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
    /// The Apple GPU of a Mac; it has run on none yet.
    Metal,
    /// Emitted Metal source on the processor, by clang++-19: to test it.
    MslOnCpu,
    /// The interpreter.
    Interp,
    /// A simulated GPU, for which kernels are planned as for NVIDIA's sm_90a: slow, and says what is wrong with them.
    #[value(alias = "sim-hopper")]
    Sim,
    /// The same for NVIDIA's sm_80.
    SimAmpere,
    /// The same for Apple GPUs.
    SimApple,
}

impl DeviceName {
    /// The device.
    ///
    /// # Errors
    /// If this machine does not have it; the error says what to do.
    pub fn open(self) -> Result<Device, metile::Error> {
        match self {
            DeviceName::Cpu => Ok(Device::cpu()),
            DeviceName::Cuda => Device::cuda(),
            DeviceName::Metal => Device::metal(),
            DeviceName::MslOnCpu => Ok(Device::msl_on_cpu(0)),
            DeviceName::Interp => Ok(Device::interpreter()),
            DeviceName::Sim => Ok(Device::simulator(Target::HOPPER)),
            DeviceName::SimAmpere => Ok(Device::simulator(Target::AMPERE)),
            DeviceName::SimApple => Ok(Device::simulator(Target::APPLE)),
        }
    }
}

/// What projections read, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActivationsName {
    /// Rows in f32.
    F32,
    /// Rows of Q8_0 blocks.
    Q8,
    /// Rows in bf16 or f16, as the weights are.
    #[value(name = "16-bit")]
    SixteenBit,
    /// 16 bits on a GPU, where weights have them; else f32.
    Auto,
}

impl From<ActivationsName> for Activations {
    fn from(name: ActivationsName) -> Activations {
        match name {
            ActivationsName::F32 => Activations::F32,
            ActivationsName::Q8 => Activations::Q8,
            ActivationsName::SixteenBit => Activations::SixteenBit,
            ActivationsName::Auto => Activations::Auto,
        }
    }
}

/// How exact rotary frequencies are, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FrequenciesName {
    /// As the formula gives them.
    F32,
    /// As MLX computes them, to compare with it.
    Exp2,
    /// Rounded.
    Bf16,
}

impl From<FrequenciesName> for RopeFrequencies {
    fn from(name: FrequenciesName) -> RopeFrequencies {
        match name {
            FrequenciesName::F32 => RopeFrequencies::F32,
            FrequenciesName::Exp2 => RopeFrequencies::Exp2,
            FrequenciesName::Bf16 => RopeFrequencies::BF16,
        }
    }
}

/// A count that is not 0.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err("a whole number of at least 1".to_owned()),
    }
}
