//! Where a report was made.

use super::figure::Figure;
use super::subject::FileHash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The machine and its software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The device's hardware, in the vendor's words.
    pub hardware: String,
    /// The processor.
    pub processor: String,
    /// Processors of the host.
    pub processors: u64,
    /// Main memory.
    pub memory_bytes: Figure,
    /// The largest cache.
    pub last_cache_bytes: Figure,
    /// Operating system and its version.
    pub system: String,
    /// Architecture.
    pub architecture: String,
    /// Vector instructions that the CPU back-end chose.
    pub simd: String,
    /// Threads of the CPU back-end.
    pub threads: u64,
    /// Versions by package: `metile`, `rustc`, and what the arms have in common.
    pub versions: BTreeMap<String, String>,
    /// Commit of the source, or why it is not known.
    pub commit: String,
    /// Whether files differed from the commit; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<bool>,
    /// Environment variables that change compilers or libraries, as set.
    pub overrides: BTreeMap<String, String>,
}

/// What the machine was like at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// When, in UTC (RFC 3339).
    pub at: String,
    /// Processor clock, mean over processors.
    pub clock_mhz: Figure,
    /// Temperature.
    pub temperature_celsius: Figure,
    /// Load average of the last minute.
    pub load: Figure,
}

/// Probed rates of the device, measured in the same run. Nothing can be faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes read from memory a second.
    pub read_bytes_per_s: Figure,
    /// Bytes copied a second, read and written counted.
    pub copy_bytes_per_s: Figure,
    /// Multiplications and additions in f32 a second.
    pub flop_per_s: Figure,
    /// The part by which a sample may exceed a rate before it is refused: probes and clocks vary.
    pub allowance: f64,
}

/// What exactly ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fingerprints {
    /// The program that made the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<FileHash>,
    /// Kernels by name: SHA-256 of the program that ran (Tile IR in its text form).
    pub kernels: BTreeMap<String, String>,
    /// Emitted code by kernel: SHA-256 of what the device was given. For the CPU its own form.
    pub emitted: BTreeMap<String, String>,
    /// Scripts and other sources of the arms.
    pub sources: Vec<FileHash>,
}
