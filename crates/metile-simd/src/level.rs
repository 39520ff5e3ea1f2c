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
        *LEVEL.get_or_init(|| Level::asked().unwrap_or_else(|_| Level::best()))
    }

    /// The level that `METILE_SIMD` asks for, or the best.
    ///
    /// # Errors
    /// If it names none that this machine has.
    pub fn asked() -> Result<Level, String> {
        let Ok(name) = std::env::var("METILE_SIMD") else { return Ok(Level::best()) };
        let levels = [Level::Portable, Level::best()];
        levels.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            let names = levels.map(Level::name).join(" or ");
            format!("METILE_SIMD={name} is no level of this machine: {names}")
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
