//! NVIDIA's run-time compiler: found, loaded and called.
//!
//! The library is loaded from a path that is known, together with the one of built-in headers that lies beside it: NVRTC looks
//! for that by name only, which fails where the folder is not on the loader's path, as with the Python package.

use super::error::CudaError;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What machine code is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    /// Compute capability.
    pub major: u32,
    /// Compute capability.
    pub minor: u32,
    /// Whether the instructions of this very architecture may be used (`sm_90a`): code runs on no later one.
    pub specific: bool,
}

impl Arch {
    /// A100.
    pub const SM_80: Arch = Arch { major: 8, minor: 0, specific: false };
    /// H100 and H200.
    pub const SM_90A: Arch = Arch { major: 9, minor: 0, specific: true };

    /// The architecture of a GPU, its own instructions included.
    pub fn of(major: u32, minor: u32) -> Arch {
        Arch { major, minor, specific: major >= 9 }
    }
}

impl std::fmt::Display for Arch {
    /// `sm_90a`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}{}{}", self.major, self.minor, if self.specific { "a" } else { "" })
    }
}

/// Options besides the architecture: IEEE arithmetic, operations fused only where the kernel says so; and no word of values that
/// Device IR has and nobody uses.
pub(super) const OPTIONS: [&str; 6] = [
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--diag-suppress=177,550",
];

/// What NVRTC makes of a source.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// Machine code.
    pub cubin: Vec<u8>,
    /// The code it was assembled from.
    pub ptx: String,
    /// Warnings.
    pub log: String,
}

type Handle = *mut std::ffi::c_void;

/// The functions of the library.
#[derive(Clone, Copy)]
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    log: Get,
    ptx: Get,
    cubin: Get,
}

/// A result's size, and the result.
type Get = (
    unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
);

/// The loaded library.
pub struct Nvrtc {
    functions: Functions,
    /// Where it was found.
    pub path: PathBuf,
    /// Its version.
    pub version: (u32, u32),
    _libraries: Vec<Library>,
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nvrtc {}.{} of {}", self.version.0, self.version.1, self.path.display())
    }
}

impl Nvrtc {
    /// The library, loaded when it is first asked for.
    ///
    /// # Errors
    /// If it is not found, or `METILE_NVRTC` names something else.
    pub fn get() -> Result<&'static Nvrtc, CudaError> {
        static LOADED: OnceLock<Result<Nvrtc, CudaError>> = OnceLock::new();
        LOADED.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    /// Compiles `source`, whose kernel is `name`.
    ///
    /// # Errors
    /// If NVRTC refuses it; the error has its log.
    pub fn compile(&self, name: &str, source: &str, arch: Arch) -> Result<Compilation, CudaError> {
        let refuse = |log: String| CudaError::Compile {
            kernel: name.to_owned(),
            arch: arch.to_string(),
            log,
        };
        let text = |text: &str| CString::new(text).map_err(|e| refuse(e.to_string()));
        let (source_text, file) = (text(source)?, text(&format!("{name}.cu"))?);
        let architecture = format!("--gpu-architecture={arch}");
        let options: Vec<CString> = OPTIONS
            .iter()
            .copied()
            .chain([architecture.as_str()])
            .map(text)
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let f = &self.functions;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: both texts outlive the program; there are no headers.
        let created = unsafe {
            let none = std::ptr::null();
            (f.create)(&mut handle, source_text.as_ptr(), file.as_ptr(), 0, none, none)
        };
        if created != 0 {
            return Err(refuse(self.message(created)));
        }
        let program = Running { nvrtc: self, handle };
        // SAFETY: the program was created, and as many options are given.
        let compiled = unsafe { (f.compile)(handle, pointers.len() as c_int, pointers.as_ptr()) };
        let log = String::from_utf8_lossy(&program.get(f.log).unwrap_or_default()).into_owned();
        let log = log.trim_end_matches('\0').trim_end().to_owned();
        if compiled != 0 {
            return Err(refuse(format!("{}\n{log}", self.message(compiled))));
        }
        let result = |get: Get, what: &str| {
            program.get(get).map_err(|code| refuse(format!("no {what}: {}", self.message(code))))
        };
        let cubin = result(f.cubin, "machine code")?;
        let ptx = String::from_utf8_lossy(&result(f.ptx, "PTX")?).into_owned();
        Ok(Compilation { cubin, ptx: ptx.trim_end_matches('\0').to_owned(), log })
    }

    fn message(&self, code: c_int) -> String {
        // SAFETY: it gives a static string for every code.
        unsafe {
            let text = (self.functions.error)(code);
            if text.is_null() {
                return format!("error {code}");
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

/// A program of NVRTC's, destroyed at the end.
struct Running<'n> {
    nvrtc: &'n Nvrtc,
    handle: Handle,
}

impl Running<'_> {
    fn get(&self, (size, get): Get) -> Result<Vec<u8>, c_int> {
        let mut bytes = 0;
        // SAFETY: the program lives as long as this.
        let code = unsafe { size(self.handle, &mut bytes) };
        if code != 0 {
            return Err(code);
        }
        let mut out = vec![0u8; bytes];
        // SAFETY: it writes as many bytes as it said.
        let code = unsafe { get(self.handle, out.as_mut_ptr().cast()) };
        if code == 0 { Ok(out) } else { Err(code) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        unsafe { (self.nvrtc.functions.destroy)(&mut self.handle) };
    }
}

/// Looks where `METILE_NVRTC` says, or else where the library usually is.
fn find() -> Result<Nvrtc, CudaError> {
    if let Some(value) = std::env::var_os("METILE_NVRTC") {
        let path = PathBuf::from(&value);
        let bad = |why: String| CudaError::BadNvrtc { path: path.display().to_string(), why };
        let file = if path.is_dir() {
            let found = libraries_in(&path).into_iter().next();
            found.ok_or_else(|| bad("the folder has no libnvrtc.so".to_owned()))?
        } else {
            path.clone()
        };
        return load(&file).map_err(bad);
    }
    let mut searched = vec!["the loader's path".to_owned()];
    for name in ["libnvrtc.so.13", "libnvrtc.so"] {
        if let Ok(nvrtc) = load(Path::new(name)) {
            return Ok(nvrtc);
        }
    }
    for folder in folders() {
        searched.push(folder.display().to_string());
        for file in libraries_in(&folder) {
            match load(&file) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(why) => searched.push(format!("{} ({why})", file.display())),
            }
        }
    }
    Err(CudaError::NoNvrtc { searched })
}

/// The compiler's library in `folder`, under whatever names.
fn libraries_in(folder: &Path) -> Vec<PathBuf> {
    files(folder, |name| name.starts_with("libnvrtc.so"))
}

fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(&wanted))
        .map(|e| e.path())
        .collect();
    found.sort();
    found
}

/// Folders that toolkits and Python packages put it into, the likeliest first.
fn folders() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"] {
        if let Some(root) = std::env::var_os(variable) {
            all.push(PathBuf::from(&root).join("lib64"));
            all.push(PathBuf::from(&root).join("lib"));
        }
    }
    all.push(PathBuf::from("/usr/local/cuda/lib64"));
    for toolkit in files(Path::new("/usr/local"), |name| name.starts_with("cuda-13")) {
        all.push(toolkit.join("lib64"));
    }
    for root in python_roots() {
        for lib in ["lib", "lib64"] {
            for python in files(&root.join(lib), |name| name.starts_with("python3")) {
                for packages in ["site-packages", "dist-packages"] {
                    all.push(python.join(packages).join("nvidia/cu13/lib"));
                    all.push(python.join(packages).join("nvidia/cuda_nvrtc/lib"));
                }
            }
        }
    }
    all.retain(|folder| folder.is_dir());
    all
}

/// Folders with Python installations below them.
fn python_roots() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = Vec::new();
    let of_program = |program: PathBuf| Some(program.parent()?.parent()?.to_owned());
    if let Some(python) = std::env::var_os("METILE_PYTHON") {
        roots.extend(of_program(PathBuf::from(python)));
    }
    roots.extend(std::env::var_os("VIRTUAL_ENV").map(PathBuf::from));
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        if folder.join("python3").is_file() {
            roots.extend(folder.parent().map(Path::to_owned));
        }
    }
    roots.extend(std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local")));
    roots.push(PathBuf::from("/usr/local"));
    roots.push(PathBuf::from("/usr"));
    let mut seen = std::collections::HashSet::new();
    roots.retain(|root| seen.insert(root.clone()));
    roots
}

fn load(path: &Path) -> Result<Nvrtc, String> {
    let mut libraries = Vec::new();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    for builtins in
        folder.map(|f| files(f, |n| n.starts_with("libnvrtc-builtins.so"))).unwrap_or_default()
    {
        // SAFETY: NVIDIA's library of headers, which runs nothing when it is loaded. Kept loaded, it is found by its name.
        if let Ok(library) = unsafe { Library::new(&builtins) } {
            libraries.push(library);
        }
    }
    // SAFETY: NVIDIA's compiler, which runs nothing of ours when it is loaded.
    let library = unsafe { Library::new(path) }.map_err(|e| e.to_string())?;
    // SAFETY: the functions have these types in every version since CUDA 11.2.
    let functions = unsafe {
        Functions {
            version: symbol(&library, "nvrtcVersion")?,
            error: symbol(&library, "nvrtcGetErrorString")?,
            create: symbol(&library, "nvrtcCreateProgram")?,
            destroy: symbol(&library, "nvrtcDestroyProgram")?,
            compile: symbol(&library, "nvrtcCompileProgram")?,
            log: (
                symbol(&library, "nvrtcGetProgramLogSize")?,
                symbol(&library, "nvrtcGetProgramLog")?,
            ),
            ptx: (symbol(&library, "nvrtcGetPTXSize")?, symbol(&library, "nvrtcGetPTX")?),
            cubin: (symbol(&library, "nvrtcGetCUBINSize")?, symbol(&library, "nvrtcGetCUBIN")?),
        }
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: it writes two numbers.
    if unsafe { (functions.version)(&mut major, &mut minor) } != 0 {
        return Err("it does not tell its version".to_owned());
    }
    libraries.push(library);
    let version = (major.unsigned_abs(), minor.unsigned_abs());
    Ok(Nvrtc { functions, path: path.to_owned(), version, _libraries: libraries })
}

/// A function of the library.
///
/// # Safety
/// `F` is its type.
unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller's.
    unsafe { library.get::<F>(name.as_bytes()) }.map(|f| *f).map_err(|e| e.to_string())
}
