//! How a worker is started.

use super::error::BaselineError;
use super::locate::{Baseline, Device, Found, Installed};
use super::process::{Limits, Worker};
use super::sources;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a library is used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// As its documentation's first example does: operations are built and evaluated call by call.
    #[default]
    Eager,
    /// Through its compiler (`mx.compile`; `torch.compile`, for models with a static cache), compiled before
    /// anything is timed.
    Compiled,
}

/// What a worker is started with.
#[derive(Clone, Copy, Debug)]
pub struct StartOptions {
    /// Threads of its library's operations on a CPU.
    pub threads: usize,
    /// Its limits.
    pub limits: Limits,
}

impl StartOptions {
    /// So many threads, and the usual limits.
    pub fn threads(threads: usize) -> StartOptions {
        StartOptions { threads, limits: Limits::default() }
    }
}

/// Names the BLAS that MLX's CPU worker preloads: a path, or `wheel` for the one it carries.
pub const MLX_BLAS: &str = "METILE_MLX_BLAS";

/// Where Debian and its kind keep OpenBLAS.
const OPENBLAS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
    "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0",
    "/usr/lib/x86_64-linux-gnu/libopenblas.so.0",
    "/usr/lib/aarch64-linux-gnu/libopenblas.so.0",
];

impl Installed {
    /// Starts its worker.
    ///
    /// # Errors
    /// If the sources can't be written to the cache folder, or the worker says no hello.
    pub fn start(&self, options: &StartOptions) -> Result<Worker, BaselineError> {
        let name = self.baseline.name();
        let mut command = match &self.found {
            Found::Program(program) => Command::new(program),
            Found::Python { python, .. } => {
                let mut command = Command::new(python);
                command.args(["-B", "-u"]).arg(sources::worker()?).arg(name);
                command
            }
        };
        let threads = options.threads.to_string();
        for variable in [
            "METILE_WORKER_THREADS",
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "RAYON_NUM_THREADS",
        ] {
            command.env(variable, &threads);
        }
        command.env("METILE_WORKER_DEVICE", self.device.name());
        // FP32 means FP32.
        command.env("MLX_ENABLE_TF32", "0");
        // Nothing is fetched during a study.
        command.env("HF_HUB_OFFLINE", "1").env("TRANSFORMERS_OFFLINE", "1");
        command.env("TOKENIZERS_PARALLELISM", "false");
        command.env("PYTHONNOUSERSITE", "1").env_remove("PYTHONPATH");
        if self.baseline == Baseline::Mlx
            && self.device == Device::Cpu
            && let Some(blas) = preloaded_blas()
        {
            command.env("LD_PRELOAD", blas);
        }
        Worker::spawn(name, command, options.limits)
    }
}

/// What MLX preloads on a CPU: its wheel carries the reference BLAS, which is far slower than what users of
/// a Linux system have.
fn preloaded_blas() -> Option<PathBuf> {
    match std::env::var_os(MLX_BLAS) {
        Some(value) if value == "wheel" => None,
        Some(path) => Some(PathBuf::from(path)),
        None => OPENBLAS.iter().map(Path::new).find(|path| path.is_file()).map(Path::to_path_buf),
    }
}
