//! From source to a shared library.

use super::cache::{self, failed};
use super::{MslError, check};
use libloading::Library;
use metile_compiler::gpu::metal::Msl;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The compiler, unless `METILE_CLANG` names another.
pub const COMPILER: &str = "clang++-19";

/// Strict arithmetic, and warnings as errors but for what the emitter does on purpose.
const FLAGS: [&str; 17] = [
    "-std=c++14",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-attributes",
    "-Wno-unknown-pragmas",
    "-Wno-unused",
    "-Wno-unused-parameter",
    // Programs compare values with themselves, and with constants, as they like.
    "-Wno-tautological-compare",
    "-Wno-constant-logical-operand",
    "-Wno-pass-failed",
    "-ftrap-function=metile_undefined",
];
const SANITIZERS: &str = "signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,alignment,bounds,bool";

/// The compiler's program, and what it says its version is.
///
/// # Errors
/// If it does not start.
pub fn compiler() -> Result<&'static (String, String), MslError> {
    static FOUND: OnceLock<Result<(String, String), (String, String)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let program = std::env::var("METILE_CLANG").unwrap_or_else(|_| COMPILER.to_owned());
        match Command::new(&program).arg("--version").output() {
            Ok(output) if output.status.success() => {
                Ok((program, String::from_utf8_lossy(&output.stdout).into_owned()))
            }
            Ok(output) => Err((program, format!("it ended with {}", output.status))),
            Err(error) => Err((program, error.to_string())),
        }
    });
    found.as_ref().map_err(|(compiler, reason)| MslError::Compiler {
        compiler: compiler.clone(),
        reason: reason.clone(),
    })
}

/// The library of a kernel: found where it was kept, or compiled.
pub(super) fn library(msl: &Msl) -> Result<Library, MslError> {
    let kernel = &msl.entry;
    check(&msl.source).map_err(|found| MslError::Forbidden { kernel: kernel.clone(), found })?;
    let (program, version) = compiler()?;
    let headers = cache::headers()?;
    let text = unit(msl, version, &headers);
    let (entry, compiled) = cache::entry(kernel, &text)?;
    if compiled {
        match load(&entry.library) {
            Ok(library) => return Ok(library),
            Err(reason) => {
                tracing::warn!(target: "metile", "{}: {reason}; compiling it again", entry.library.display())
            }
        }
    }
    let draft = cache::draft(&entry.library);
    let call = |arguments: &[&str]| -> Result<(), MslError> {
        let output = Command::new(program)
            .args(FLAGS)
            .arg("-isystem")
            .arg(&headers)
            .arg(&entry.text)
            .args(arguments)
            .output()
            .map_err(|e| MslError::Compiler { compiler: program.clone(), reason: e.to_string() })?;
        if output.status.success() {
            return Ok(());
        }
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(MslError::Refused { kernel: kernel.clone(), report })
    };
    call(&["-fsyntax-only", "-DMETILE_ADDRESS_SPACES"])?;
    let [find, then] = ["", "-trap"].map(|what| format!("-fsanitize{what}={SANITIZERS}"));
    let to = draft.to_string_lossy();
    call(&["-O1", "-fPIC", "-shared", &find, &then, "-o", &to, "-lm"])?;
    fs::rename(&draft, &entry.library).map_err(|e| failed(&entry.library, e))?;
    load(&entry.library).map_err(|reason| failed(&entry.library, reason))
}

/// The source, then how the kernel is called. One thing of the source is changed: the attribute
/// `threadgroup(0)` shares its name with the address space, which is a macro here.
fn unit(msl: &Msl, version: &str, headers: &Path) -> String {
    let mut text = String::new();
    for line in version.lines() {
        // Writing to a String can't fail.
        let _ = writeln!(text, "// {line}");
    }
    let _ = writeln!(text, "// {} -fsanitize={SANITIZERS}", FLAGS.join(" "));
    let _ = writeln!(text, "// {}", headers.display());
    text.push_str(&msl.source.replace("[[threadgroup(0)]]", "[[threadgroup_memory(0)]]"));
    let mut passed = vec!["metile_threads::Arguments{launch.arguments}".to_owned()];
    for n in 0..msl.buffers.len() {
        passed.push(format!("metile_threads::Buffer{{launch.buffers[{n}]}}"));
    }
    if msl.shared_bytes > 0 {
        passed.push("metile_threads::Buffer{shared}".to_owned());
    }
    let _ = write!(
        text,
        "\nvoid metile_threads::kernel(unsigned lane, unsigned warp) {{\n    \
         uint3 position, groups;\n    \
         for (int n = 0; n < 3; ++n) {{\n        \
         position[n] = launch.position[n];\n        \
         groups[n] = launch.groups[n];\n    }}\n    \
         ::{}({}, position, groups, lane, warp);\n}}\n",
        msl.entry,
        passed.join(", ")
    );
    text
}

fn load(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: the library is one that `library` compiled, or one of that name in the user's own cache folder; it
    // has no initializers.
    unsafe { Library::new(path) }
}
