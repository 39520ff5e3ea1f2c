//! One loop, built once per level.

use crate::Level;

/// A loop. Mark `go` `#[inline(always)]`: it is compiled into a function of each level.
pub(crate) trait Work {
    /// What it gives back.
    type Output;
    /// Does it. With `FUSED`, `mul_add` is one instruction.
    fn go<const FUSED: bool>(self) -> Self::Output;
}

/// Does `work` with the instructions of `level`, which the machine has.
pub(crate) fn dispatch<W: Work>(level: Level, work: W) -> W::Output {
    match level {
        Level::Portable => {
            work.go::<{ cfg!(any(target_feature = "fma", target_arch = "aarch64")) }>()
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level is only ever one that the machine has.
        Level::Avx2 => unsafe { avx2(work) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 => work.go::<false>(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2<W: Work>(work: W) -> W::Output {
    work.go::<true>()
}
