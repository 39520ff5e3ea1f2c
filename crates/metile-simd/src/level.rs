//! Which SIMD instructions the machine has.

use std::sync::OnceLock;

/// A set of SIMD instructions that primitives are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// What the compilation target always has: SSE2 on x86-64, NEON on AArch64.
    Portable,
    /// AVX2, FMA and F16C: 256-bit vectors.
    Avx2,
}

impl Level {
    /// The best level of this machine; `METILE_SIMD=portable` asks for less. Decided once.
    pub fn detect() -> Level {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let asked = std::env::var("METILE_SIMD").ok();
            match asked.as_deref() {
                Some("portable") => Level::Portable,
                _ => Level::best(),
            }
        })
    }

    #[cfg(target_arch = "x86_64")]
    fn best() -> Level {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        if avx2 { Level::Avx2 } else { Level::Portable }
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn best() -> Level {
        Level::Portable
    }

    /// The level's name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
        }
    }
}
