//! Names the compiler that the crate is built with.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(rustc).arg("--version").output();
    let text = version.ok().and_then(|done| String::from_utf8(done.stdout).ok());
    let text = text.as_deref().map_or("rustc of unknown version", str::trim);
    println!("cargo::rustc-env=METILE_RUSTC={text}");
}
