//! The stream of choices.

use std::borrow::Cow;

/// Bytes that decide; when they run out, zeros.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
}

impl<'a> Choices<'a> {
    /// Choices read from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes: Cow::Borrowed(bytes), at: 0 }
    }

    /// Choices read from `len` bytes drawn from `seed`.
    pub fn from_seed(seed: u64, len: usize) -> Choices<'static> {
        let mut random = SplitMix::new(seed);
        let bytes: Vec<u8> = (0..len).map(|_| (random.next() >> 56) as u8).collect();
        Choices { bytes: Cow::Owned(bytes), at: 0 }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at = self.at.saturating_add(1);
        byte
    }

    /// The next eight bytes as a number.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        match n {
            0 | 1 => 0,
            2..=256 => self.byte() as usize % n,
            _ => usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % n,
        }
    }

    /// True in `n` of 256 cases.
    pub fn chance(&mut self, n: u8) -> bool {
        // Counted from the top, so that zeros choose no.
        self.byte() > 255 - n
    }

    /// One of `all`, which is not empty: the first if the choices have run out.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.below(all.len())).copied()
    }
}

/// The splitmix64 generator: small, and good enough to spread a seed.
#[derive(Clone, Debug)]
pub struct SplitMix {
    state: u64,
}

impl SplitMix {
    /// A generator at `seed`.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix { state: seed }
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
