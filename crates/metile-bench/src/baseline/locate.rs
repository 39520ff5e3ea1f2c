//! Which baselines there are, and where they are installed.

use super::error::BaselineError;
use std::fmt;
use std::path::{Path, PathBuf};

/// A library that metile is measured beside.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Baseline {
    /// MLX and MLX-LM: models and kernels.
    Mlx,
    /// PyTorch and Transformers: models and kernels.
    PyTorch,
    /// ONNX Runtime: row operations and products.
    OnnxRuntime,
    /// llama.cpp through llama-cpp-python: models from GGUF files, tokens only.
    LlamaCpp,
    /// Triton: kernels.
    Triton,
    /// NumPy with its wheel's OpenBLAS: products.
    NumPy,
    /// Intel's MKL: products.
    Mkl,
    /// candle, a Rust program: models, tokens only.
    Candle,
}

/// A kind of device that a baseline computes on.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Device {
    Cpu,
    Cuda,
    Metal,
}

impl Device {
    /// All.
    pub const ALL: [Device; 3] = [Device::Cpu, Device::Cuda, Device::Metal];

    /// `cpu`, `cuda` or `metal`.
    pub fn name(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda => "cuda",
            Device::Metal => "metal",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Baseline {
    /// All.
    pub const ALL: [Baseline; 8] = [
        Baseline::Mlx,
        Baseline::PyTorch,
        Baseline::OnnxRuntime,
        Baseline::LlamaCpp,
        Baseline::Triton,
        Baseline::NumPy,
        Baseline::Mkl,
        Baseline::Candle,
    ];

    /// Its name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Baseline::Mlx => "mlx",
            Baseline::PyTorch => "pytorch",
            Baseline::OnnxRuntime => "onnxruntime",
            Baseline::LlamaCpp => "llama.cpp",
            Baseline::Triton => "triton",
            Baseline::NumPy => "numpy",
            Baseline::Mkl => "mkl",
            Baseline::Candle => "candle",
        }
    }

    /// The baseline of a name.
    ///
    /// # Errors
    /// If there is none; the message lists those there are.
    pub fn parse(name: &str) -> Result<Baseline, BaselineError> {
        Baseline::ALL.into_iter().find(|b| b.name() == name).ok_or_else(|| {
            let known = Baseline::ALL.map(Baseline::name).join(", ");
            BaselineError::UnknownBaseline { name: name.to_owned(), known }
        })
    }

    /// What it is and does here, in a line.
    pub fn summary(self) -> &'static str {
        match self {
            Baseline::Mlx => "MLX and MLX-LM: models and kernels",
            Baseline::PyTorch => "PyTorch and Transformers, eager and compiled: models and kernels",
            Baseline::OnnxRuntime => "ONNX Runtime: row operations and products",
            Baseline::LlamaCpp => {
                "llama.cpp through llama-cpp-python: models from GGUF files, tokens only"
            }
            Baseline::Triton => "Triton: kernels",
            Baseline::NumPy => "NumPy with its wheel's OpenBLAS: products",
            Baseline::Mkl => "Intel MKL: products",
            Baseline::Candle => "candle, a Rust program: models, tokens only",
        }
    }

    /// The devices it has a worker for.
    pub fn devices(self) -> &'static [Device] {
        match self {
            Baseline::Mlx => &Device::ALL,
            Baseline::PyTorch | Baseline::LlamaCpp => &[Device::Cpu, Device::Cuda],
            Baseline::Triton => &[Device::Cuda],
            Baseline::OnnxRuntime | Baseline::NumPy | Baseline::Mkl | Baseline::Candle => {
                &[Device::Cpu]
            }
        }
    }

    /// The variable that names an existing Python (for candle, the program) to use instead of an installed
    /// environment: `METILE_PYTHON_MLX`, `METILE_PYTHON_LLAMA_CPP`, …, `METILE_CANDLE`.
    pub fn variable(self) -> String {
        if self == Baseline::Candle {
            return "METILE_CANDLE".to_owned();
        }
        format!("METILE_PYTHON_{}", self.name().to_ascii_uppercase().replace('.', "_"))
    }

    /// The command that installs it.
    pub fn install_command(self, device: Device) -> String {
        format!("metile baseline install {} --device {device}", self.name())
    }

    /// Refuses a device that it has no worker for.
    ///
    /// # Errors
    /// If it has none.
    pub fn check_device(self, device: Device) -> Result<(), BaselineError> {
        if self.devices().contains(&device) {
            return Ok(());
        }
        let available: Vec<&str> = self.devices().iter().map(|device| device.name()).collect();
        Err(BaselineError::NoSuchDevice {
            baseline: self.name(),
            device: device.to_string(),
            available: available.join(", "),
        })
    }

    /// Where it is installed: what its variable names, else the environment that `metile baseline install`
    /// made.
    ///
    /// # Errors
    /// If it is not there; the message names the command that installs it.
    pub fn locate(self, device: Device) -> Result<Installed, BaselineError> {
        self.check_device(device)?;
        let missing = |why| BaselineError::NotInstalled {
            baseline: self.name(),
            device: device.name(),
            why,
            command: self.install_command(device),
        };
        let variable = self.variable();
        if let Some(path) = std::env::var_os(&variable) {
            let path = PathBuf::from(path);
            if !path.is_file() {
                return Err(missing(format!(
                    "{variable} names {}, which is no file",
                    path.display()
                )));
            }
            let found = match self {
                Baseline::Candle => Found::Program(path),
                _ => Found::Python { python: path, variable: Some(variable) },
            };
            return Ok(Installed { baseline: self, device, found });
        }
        let folder = self.folder(device)?;
        if !folder.join(super::install::RECORD).is_file() {
            return Err(missing(format!(
                "{variable} is not set, and {} holds no finished installation",
                folder.display()
            )));
        }
        let found = match self {
            Baseline::Candle => Found::Program(candle_of(&folder)),
            _ => Found::Python { python: python_of(&folder), variable: None },
        };
        Ok(Installed { baseline: self, device, found })
    }

    /// The folder of its installation.
    pub(super) fn folder(self, device: Device) -> Result<PathBuf, BaselineError> {
        Ok(cache_folder()?.join("baselines").join(format!("{}-{device}", self.name())))
    }
}

/// candle's worker in its installation.
pub(super) fn candle_of(folder: &Path) -> PathBuf {
    folder.join("bin").join("metile-candle")
}

/// The interpreter of an environment.
pub(super) fn python_of(environment: &Path) -> PathBuf {
    environment.join("bin").join("python")
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What runs a baseline's worker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// A Python with its packages.
    Python {
        /// The interpreter.
        python: PathBuf,
        /// The variable that named it, if one did.
        variable: Option<String>,
    },
    /// A program.
    Program(PathBuf),
}

/// A baseline that is there.
#[derive(Clone, Debug)]
pub struct Installed {
    /// Which.
    pub baseline: Baseline,
    /// For which device.
    pub device: Device,
    /// What runs it.
    pub found: Found,
}

/// `metile` in the user's cache folder.
///
/// # Errors
/// If neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
pub fn cache_folder() -> Result<PathBuf, BaselineError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Ok(cache.ok_or(BaselineError::NoCacheFolder)?.join("metile"))
}
