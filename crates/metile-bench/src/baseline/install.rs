//! Installing baselines: an environment of pinned packages each, in the user's cache folder.

use super::error::BaselineError;
use super::locate::{Baseline, Device, candle_of, python_of};
use super::tensor::sha256;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Written last: an installation without it is not finished.
pub(super) const RECORD: &str = "installed.json";

/// Names the Python that makes environments; `python3` if it is not set.
const PYTHON: &str = "METILE_BASELINE_PYTHON";

/// What an installation holds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct InstallReport {
    /// SHA-256 of the requirements (for candle: of its sources) that it was made from.
    pub requirements_sha256: String,
    /// All packages with their versions, as the installer lists them.
    pub packages: Vec<String>,
    /// Whether it was there already.
    #[serde(skip)]
    pub already: bool,
}

/// candle's worker: its sources travel in the program.
const CANDLE: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("../../../../baselines/candle/Cargo.toml")),
    ("Cargo.lock", include_str!("../../../../baselines/candle/Cargo.lock")),
    ("src/main.rs", include_str!("../../../../baselines/candle/src/main.rs")),
    ("src/models.rs", include_str!("../../../../baselines/candle/src/models.rs")),
];

/// The pinned packages.
pub(super) fn requirements(baseline: Baseline, device: Device) -> &'static str {
    macro_rules! file {
        ($name:literal) => {
            include_str!(concat!("../../../../python/requirements/", $name, ".txt"))
        };
    }
    match (baseline, device) {
        (Baseline::Mlx, Device::Cpu) => file!("mlx-cpu"),
        (Baseline::Mlx, Device::Cuda) => file!("mlx-cuda"),
        (Baseline::Mlx, Device::Metal) => file!("mlx-metal"),
        (Baseline::PyTorch, _) => file!("pytorch"),
        (Baseline::OnnxRuntime, _) => file!("onnxruntime"),
        (Baseline::LlamaCpp, _) => file!("llama.cpp"),
        (Baseline::Triton, _) => file!("triton"),
        (Baseline::NumPy, _) => file!("numpy"),
        (Baseline::Mkl, _) => file!("mkl"),
        // Its packages are pinned by its Cargo.lock.
        (Baseline::Candle, _) => "",
    }
}

/// What an installation is made from.
fn fingerprint(baseline: Baseline, device: Device) -> String {
    match baseline {
        Baseline::Candle => sha256(CANDLE.map(|(_, text)| text).concat().as_bytes()),
        _ => sha256(requirements(baseline, device).as_bytes()),
    }
}

/// Installs a baseline, or finds it installed from the same requirements. `progress` is told each step; the
/// package manager writes to stderr.
///
/// # Errors
/// If the baseline has no worker for the device, or a step fails; what is left is no finished installation.
pub fn install(
    baseline: Baseline,
    device: Device,
    mut progress: impl FnMut(&str),
) -> Result<InstallReport, BaselineError> {
    baseline.check_device(device)?;
    let folder = baseline.folder(device)?;
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(file_error("making", parent))?;
    }
    // Two installations of the same baseline wait for each other.
    let lock_path = folder.with_extension("lock");
    let lock = File::create(&lock_path).map_err(file_error("opening", &lock_path))?;
    lock.lock().map_err(file_error("locking", &lock_path))?;

    let wanted = fingerprint(baseline, device);
    let record = folder.join(RECORD);
    if let Some(found) = fs::read(&record).ok().and_then(|text| {
        let found: InstallReport = serde_json::from_slice(&text).ok()?;
        (found.requirements_sha256 == wanted).then_some(found)
    }) && starts(baseline, &folder)
    {
        return Ok(InstallReport { already: true, ..found });
    }
    if folder.exists() {
        progress("removing what an earlier installation left");
        fs::remove_dir_all(&folder).map_err(file_error("removing", &folder))?;
    }
    let packages = match baseline {
        Baseline::Candle => program(&folder, &mut progress)?,
        _ => environment(baseline, device, &folder, &mut progress)?,
    };
    let report = InstallReport { requirements_sha256: wanted, packages, already: false };
    let text = serde_json::to_string_pretty(&report).map_err(|error| BaselineError::Install {
        baseline: baseline.name(),
        step: "writing the record".to_owned(),
        detail: error.to_string(),
    })?;
    fs::write(&record, text).map_err(file_error("writing", &record))?;
    Ok(report)
}

fn file_error<'p>(
    doing: &'static str,
    path: &'p Path,
) -> impl FnOnce(std::io::Error) -> BaselineError + use<'p> {
    move |source| BaselineError::File { doing, path: path.to_path_buf(), source }
}

/// Whether what was installed still starts: an environment does not when its Python has gone.
fn starts(baseline: Baseline, folder: &Path) -> bool {
    if baseline == Baseline::Candle {
        return candle_of(folder).is_file();
    }
    let mut python = Command::new(python_of(folder));
    let run = python.args(["-I", "-c", ""]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Builds candle's worker.
fn program(folder: &Path, progress: &mut impl FnMut(&str)) -> Result<Vec<String>, BaselineError> {
    let sources = folder.join("source");
    for (name, text) in CANDLE {
        let path = sources.join(name);
        let parent = path.parent().unwrap_or(&sources);
        fs::create_dir_all(parent).map_err(file_error("making", parent))?;
        fs::write(&path, text).map_err(file_error("writing", &path))?;
    }
    progress("building candle's worker; this takes minutes");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["install", "--locked", "--force", "--path"])
        .arg(&sources)
        .arg("--root")
        .arg(folder);
    // As fast as this machine allows: it is built here, for here.
    cargo.env("RUSTFLAGS", "-C target-cpu=native").env_remove("CARGO_TARGET_DIR");
    step(Baseline::Candle, "cargo install", &mut cargo)?;
    let target = sources.join("target");
    if target.exists() {
        fs::remove_dir_all(&target).map_err(file_error("removing", &target))?;
    }
    let lines: Vec<&str> = CANDLE[1].1.lines().collect();
    let field = |line: &str, key: &str| {
        line.strip_prefix(key).map(|value| value.trim_matches('"').to_owned())
    };
    Ok(lines
        .windows(2)
        .filter_map(|pair| {
            let name = field(pair[0], "name = ").filter(|name| name.starts_with("candle-"))?;
            Some(format!("{name}=={}", field(pair[1], "version = ")?))
        })
        .collect())
}

/// Makes a virtual environment and fills it.
fn environment(
    baseline: Baseline,
    device: Device,
    folder: &Path,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<String>, BaselineError> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let text = requirements(baseline, device);
    progress(&format!("making an environment with {}", python.to_string_lossy()));
    step(baseline, "python -m venv", Command::new(&python).args(["-m", "venv"]).arg(folder))?;
    let list = folder.join("requirements.txt");
    fs::write(&list, text).map_err(file_error("writing", &list))?;
    let pinned = text.split_whitespace().collect::<Vec<_>>().join(", ");
    progress(&format!("installing {pinned}"));
    let python = python_of(folder);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--requirement"]).arg(&list);
    if (baseline, device) == (Baseline::LlamaCpp, Device::Cuda) {
        // Built from source: the registry's package is for the CPU. Needs the CUDA toolkit.
        pip.env("CMAKE_ARGS", "-DGGML_CUDA=on").args([
            "--no-binary",
            "llama-cpp-python",
            "--no-cache-dir",
        ]);
    }
    step(baseline, "pip install", &mut pip)?;
    let frozen = Command::new(&python).args(["-m", "pip", "freeze", "--all"]).output();
    let frozen = frozen.map_err(|source| failed(baseline, "pip freeze", source.to_string()))?;
    if !frozen.status.success() {
        let detail = String::from_utf8_lossy(&frozen.stderr).into_owned();
        return Err(failed(baseline, "pip freeze", detail));
    }
    Ok(String::from_utf8_lossy(&frozen.stdout).lines().map(str::to_owned).collect())
}

fn failed(baseline: Baseline, step: &str, detail: String) -> BaselineError {
    BaselineError::Install { baseline: baseline.name(), step: step.to_owned(), detail }
}

/// Runs a command whose output goes to stderr.
fn step(baseline: Baseline, what: &str, command: &mut Command) -> Result<(), BaselineError> {
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(baseline, what, format!("{status}; its messages are above"))),
        Err(source) => {
            let program = command.get_program().to_string_lossy();
            Err(failed(baseline, what, format!("{program}: {source}")))
        }
    }
}
