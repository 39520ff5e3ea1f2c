//! What the machine and the system say of themselves.

mod overrides;

pub use overrides::{overrides, shown_path};

use crate::schema::{Conditions, Environment, Figure, FileHash, Limits};
use metile::runtime::cpu;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// The compiler that this program was built with.
pub const RUSTC: &str = env!("METILE_RUSTC");

/// The part by which a sample may exceed a probed rate.
const ALLOWANCE: f64 = 0.2;

fn line_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The machine and its software, for the device of that name.
pub fn environment(device: &str) -> Environment {
    let processor = line_of("/proc/cpuinfo", "model name")
        .unwrap_or_else(|| "a processor that the system does not name".to_owned());
    let memory = line_of("/proc/meminfo", "MemTotal").and_then(|text| {
        let kib: f64 = text.strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024.0)
    });
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (commit, clean) = commit();
    Environment {
        hardware: match device {
            "cpu" | "interpreter" => processor.clone(),
            "cuda" => nvidia_gpu()
                .unwrap_or_else(|| "an NVIDIA GPU; nvidia-smi does not say which".to_owned()),
            other => format!("{other}: not described by this version"),
        },
        processor,
        processors: std::thread::available_parallelism().map_or(0, |n| n.get() as u64),
        memory_bytes: memory.into(),
        last_cache_bytes: last_cache_bytes().map(|bytes| bytes as f64).into(),
        system: format!("{} {}", std::env::consts::OS, kernel.trim()).trim().to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        simd: cpu::simd().to_owned(),
        threads: cpu::threads().map_or(0, |n| n as u64),
        versions: BTreeMap::from([
            ("metile".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("rustc".to_owned(), RUSTC.to_owned()),
        ]),
        commit,
        clean,
        overrides: overrides(std::env::vars()),
    }
}

/// The commit of the repository that this is run in, else what `METILE_COMMIT` says, or why there is none; and
/// whether files differ from it.
fn commit() -> (String, Option<bool>) {
    let git = |arguments: &[&str]| {
        let done = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        done.status.success().then_some(text)
    };
    match git(&["rev-parse", "HEAD"]) {
        // A program that was carried elsewhere is told what it was built from.
        None => match std::env::var("METILE_COMMIT") {
            Ok(id) => (id, None),
            Err(_) => ("unknown: not run within a repository".to_owned(), None),
        },
        Some(id) => {
            let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
            (id, changed.map(|files| files.is_empty()))
        }
    }
}

/// The first NVIDIA GPU and its driver, by NVIDIA's tool.
fn nvidia_gpu() -> Option<String> {
    let done = Command::new("nvidia-smi")
        .args(["--query-gpu=name,driver_version", "--format=csv,noheader"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&done.stdout);
    let (name, driver) = text.lines().next()?.split_once(',')?;
    done.status.success().then(|| format!("{}, driver {}", name.trim(), driver.trim()))
}

/// The size of the largest cache of a processor; `None` where the system does not say.
pub fn last_cache_bytes() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let sizes = caches.flatten().filter_map(|cache| {
        let text = fs::read_to_string(cache.path().join("size")).ok()?;
        let text = text.trim();
        let (digits, unit) = match text.as_bytes().last()? {
            b'K' => (text.strip_suffix('K')?, 1 << 10),
            b'M' => (text.strip_suffix('M')?, 1 << 20),
            _ => (text, 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    });
    sizes.max()
}

/// What the machine is like now.
pub fn conditions() -> Conditions {
    let clocks: Vec<f64> = fs::read_to_string("/proc/cpuinfo")
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("cpu MHz"))
        .filter_map(|line| line.split_once(':')?.1.trim().parse().ok())
        .collect();
    let mean = (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64);
    let zones = fs::read_dir("/sys/class/thermal").into_iter().flatten().flatten();
    let temperatures = zones.filter_map(|zone| {
        let text = fs::read_to_string(zone.path().join("temp")).ok()?;
        text.trim().parse::<f64>().ok().map(|thousandths| thousandths / 1000.0)
    });
    let load = fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    Conditions {
        at: now(),
        clock_mhz: mean.into(),
        temperature_celsius: temperatures.reduce(f64::max).into(),
        load: load.into(),
    }
}

/// The time, in UTC, as RFC 3339 has it, to the second.
pub fn now() -> String {
    jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())
        .map_or_else(|_| String::new(), |time| time.to_string())
}

/// Probes the device's rates; where that is not possible yet, says so.
pub fn limits(device: &str) -> Limits {
    let unknown = |why: &str| Limits {
        read_bytes_per_s: Figure::missing(why),
        copy_bytes_per_s: Figure::missing(why),
        flop_per_s: Figure::missing(why),
        allowance: ALLOWANCE,
    };
    match device {
        "cpu" => match cpu::probe() {
            Ok([_, all]) => Limits {
                read_bytes_per_s: Figure::new(all.read),
                copy_bytes_per_s: Figure::new(all.copy),
                flop_per_s: Figure::new(all.multiply),
                allowance: ALLOWANCE,
            },
            Err(why) => unknown(&why),
        },
        other => unknown(&format!("no probe for the device `{other}`")),
    }
}

/// The program that is running.
pub fn program() -> Option<FileHash> {
    let path = std::env::current_exe().ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    crate::fingerprint::of_file(&path, name).ok()
}
