//! What a model takes, what there is, and a refusal before anything is loaded.

use crate::Error;
use crate::checkpoint::Checkpoint;

/// Bytes of an f32.
const F32: u64 = 4;

/// Bytes that running a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The checkpoint's tensors, in the formats of the file.
    pub weights: u64,
    /// Keys and values of every layer, in f32, for the whole context.
    pub kv_cache: u64,
    /// Buffers of one chunk's activations, in f32.
    pub activations: u64,
}

impl Estimate {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.kv_cache).saturating_add(self.activations)
    }
}

/// What running `checkpoint` takes with room for `context` positions, in chunks of `chunk`. Cache:
/// `layers · 2 · kv_heads · context · head_dim` numbers. Activations, per row of a chunk: four vectors
/// of the width, queries twice (with the heads' outputs), keys, values, two of the MLP's width; and one
/// row of logits.
pub fn estimate(checkpoint: &Checkpoint, context: usize, chunk: usize) -> Estimate {
    let config = checkpoint.config();
    let product = |factors: &[usize]| {
        factors.iter().fold(F32, |bytes, &factor| bytes.saturating_mul(factor as u64))
    };
    let heads = config.heads.saturating_mul(2).saturating_add(config.kv_heads.saturating_mul(2));
    let row = config
        .width
        .saturating_mul(4)
        .saturating_add(heads.saturating_mul(config.head_dim))
        .saturating_add(config.mlp_width.saturating_mul(2));
    Estimate {
        weights: checkpoint.tensors().fold(0, |sum, tensor| sum.saturating_add(tensor.bytes)),
        kv_cache: product(&[config.layers, 2, config.kv_heads, context, config.head_dim]),
        activations: product(&[chunk, row]).saturating_add(product(&[config.vocabulary])),
    }
}

/// Bytes that this process may still take: what the system has available, or what its control group
/// allows, whichever is less. `None` where the system does not say.
pub fn available() -> Option<u64> {
    let system = system_available();
    let group = control_group_left();
    [system, group].into_iter().flatten().min()
}

/// Refuses what cannot fit, before anything is loaded. Where the system does not say what is available
/// (`None`), nothing is refused.
///
/// # Errors
/// If `estimate` is more than `available`.
pub fn check(estimate: &Estimate, available: Option<u64>) -> Result<(), Error> {
    let total = estimate.total();
    let Some(available) = available.filter(|&available| total > available) else { return Ok(()) };
    let Estimate { weights, kv_cache, activations } = *estimate;
    let advice = if weights > available {
        "the weights alone do not fit; a checkpoint with fewer bits per weight takes less"
    } else {
        "a smaller context or chunk takes less"
    };
    let problem = format!(
        "the model takes {} (weights {}, K/V cache {}, activations {}), but {} are available; {advice}",
        shown(total),
        shown(weights),
        shown(kv_cache),
        shown(activations),
        shown(available),
    );
    Err(Error::Memory { problem })
}

/// Bytes as people read them.
fn shown(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|&(unit, _)| bytes >= unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(target_os = "linux")]
fn system_available() -> Option<u64> {
    mem_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// The system's whole memory: macOS gives what is free only through calls that are not safe Rust.
#[cfg(target_os = "macos")]
fn system_available() -> Option<u64> {
    let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", "hw.memsize"]).output();
    String::from_utf8(output.ok()?.stdout).ok()?.trim().parse().ok()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn system_available() -> Option<u64> {
    None
}

/// The `MemAvailable` of a `/proc/meminfo`, in bytes.
#[cfg(any(target_os = "linux", test))]
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(target_os = "linux")]
fn control_group_left() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let read = |path: &str| std::fs::read_to_string(path).ok();
    group_files(&groups).filter_map(|files| left(&files, read)).min()
}

#[cfg(not(target_os = "linux"))]
fn control_group_left() -> Option<u64> {
    None
}

/// Where a group's limit, use and statistics are written, and the statistic of file pages that the
/// system takes back.
#[cfg(any(target_os = "linux", test))]
struct GroupFiles {
    limit: String,
    used: String,
    statistics: String,
    reclaimable: &'static str,
}

/// The files of every group that a `/proc/self/cgroup` names, of both versions, up to the root: a limit
/// of a parent holds for its children.
#[cfg(any(target_os = "linux", test))]
fn group_files(groups: &str) -> impl Iterator<Item = GroupFiles> {
    groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next().unwrap_or_default();
        let path = fields.next().unwrap_or("/").trim_end_matches('/');
        let v2 = controllers.is_empty();
        let memory = v2 || controllers.split(',').any(|name| name == "memory");
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let parents = ends.map(move |end| path[..end].to_owned());
        parents.filter(move |_| memory).map(move |parent| {
            let root = if v2 { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/memory" };
            let file = |name: &str| format!("{root}{parent}/{name}");
            let statistics = file("memory.stat");
            if v2 {
                let (limit, used) = (file("memory.max"), file("memory.current"));
                GroupFiles { limit, used, statistics, reclaimable: "inactive_file" }
            } else {
                let (limit, used) = (file("memory.limit_in_bytes"), file("memory.usage_in_bytes"));
                GroupFiles { limit, used, statistics, reclaimable: "total_inactive_file" }
            }
        })
    })
}

/// What a group's limit leaves; `None` where it has none.
#[cfg(any(target_os = "linux", test))]
fn left(files: &GroupFiles, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limit: u64 = read(&files.limit)?.trim().parse().ok()?;
    let used: u64 = read(&files.used)?.trim().parse().ok()?;
    let statistics = read(&files.statistics).unwrap_or_default();
    let reclaimable = statistics
        .lines()
        .find_map(|line| line.strip_prefix(files.reclaimable)?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(used.saturating_sub(reclaimable.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_every_part() {
        let estimate = Estimate { weights: 3 << 30, kv_cache: 1 << 30, activations: 5 << 20 };
        assert!(check(&estimate, Some(5 << 30)).is_ok());
        assert!(check(&estimate, None).is_ok());
        let error = check(&estimate, Some(7 << 29)).unwrap_err().to_string();
        for part in ["4.0 GiB", "3.0 GiB", "1.0 GiB", "5.0 MiB", "3.5 GiB", "smaller context"] {
            assert!(error.contains(part), "{error}");
        }
        let error = check(&estimate, Some(1 << 20)).unwrap_err().to_string();
        assert!(error.contains("the weights alone do not fit"), "{error}");
        let huge = Estimate { weights: u64::MAX, kv_cache: u64::MAX, activations: 1 };
        assert!(check(&huge, Some(u64::MAX - 1)).is_err());
    }

    #[test]
    fn available_memory_is_read_from_the_systems_files() {
        let meminfo = "MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:    42 kB\n";
        assert_eq!(mem_available(meminfo), Some(42 * 1024));
        assert_eq!(mem_available("MemTotal: 100 kB\n"), None);
        assert_eq!(mem_available("MemAvailable: lots\n"), None);
    }

    #[test]
    fn the_tightest_control_group_counts_in_both_versions() {
        let read = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/a/memory.max" => "1000",
                "/sys/fs/cgroup/a/memory.current" => "700",
                "/sys/fs/cgroup/a/memory.stat" => "anon 500\ninactive_file 200\n",
                "/sys/fs/cgroup/a/b/memory.max" => "max",
                "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => "900",
                "/sys/fs/cgroup/memory/c/memory.usage_in_bytes" => "1000",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let least = |groups: &str| group_files(groups).filter_map(|f| left(&f, read)).min();
        assert_eq!(least("0::/a/b\n"), Some(500));
        assert_eq!(least("5:cpu,memory:/c\n0::/\n"), Some(0));
        assert_eq!(least("5:cpu:/c\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_says_what_is_available() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
