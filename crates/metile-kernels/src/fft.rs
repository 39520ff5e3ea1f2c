//! The discrete Fourier transform, Xₖ = Σⱼ xⱼ e^(−2πi jk/n), of rows whose length is a power of two.
//!
//! Complex numbers are two planes, real and imaginary parts. The algorithm is Stockham's: log₂ n steps that
//! each leave their results in order (Cochran et al., 1967), within one tile.

use crate::shapes::alike;
use metile::prelude::*;
use metile::{KernelCall, TensorError};
use std::f64::consts::TAU;

/// The longest row that [`fft`] transforms.
pub const MAX_FFT: usize = 16_384;

/// The transform of rows of N elements, a power of two; computed in f32.
///
/// `re`, `im`, `out_re`, `out_im`: [rows, N]; `cosine`, `sine`: [N/2] (at least 1), of 2πj/N. With INVERSE the
/// exponent's sign is plus and the result is divided by N. One program per row.
#[kernel]
pub fn fft_row<T: Float, const INVERSE: bool, const N: usize>(
    re: &Tensor<T, 2>,
    im: &Tensor<T, 2>,
    cosine: &Tensor<f32, 1>,
    sine: &Tensor<f32, 1>,
    out_re: &mut Tensor<T, 2>,
    out_im: &mut Tensor<T, 2>,
) {
    assert!(N.is_power_of_two(), "the length is a power of two");
    let turns = (N / 2).max(1);
    assert!(
        re.dim(1) == N
            && alike(re, out_re)
            && alike(im, out_im)
            && alike(re, out_im)
            && cosine.dim(0) == turns
            && sine.dim(0) == turns,
        "the planes have one shape, rows of a power of two up to 16384, and tables of that length"
    );
    let at = (program_id(0), arange(N));
    let mut a = re.load(at).to_f32();
    let mut b = im.load(at).to_f32();
    for step in 0..(N.trailing_zeros() as usize) {
        // N = 2 · half · width: pairs are half the row apart; `width` transforms are woven already.
        let (half, width) = (N >> (step + 1), 1usize << step);
        let [a0, a1] = a.reshape([2 * half, width]).split(0);
        let [b0, b1] = b.reshape([2 * half, width]).split(0);
        let turn = arange(half) * width;
        let c = cosine.load(turn).expand(1);
        let s = if INVERSE { sine.load(turn) } else { -sine.load(turn) }.expand(1);
        let (da, db) = (a0 - a1, b0 - b1);
        let (odd_a, odd_b) = (da * c - db * s, da * s + db * c);
        a = cat([(a0 + a1).expand(1), odd_a.expand(1)], 1).reshape([N]);
        b = cat([(b0 + b1).expand(1), odd_b.expand(1)], 1).reshape([N]);
    }
    if INVERSE {
        a = a * (1.0 / N as f32);
        b = b * (1.0 / N as f32);
    }
    out_re.store(at, a);
    out_im.store(at, b);
}

/// Which way [`fft`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// e^(−2πi jk/n), not scaled.
    Forward,
    /// e^(+2πi jk/n), divided by n: undoes [`Direction::Forward`].
    Inverse,
}

/// Cosines and sines for rows of one length.
#[derive(Debug)]
pub struct FftTables {
    /// cos 2πj/n, [n/2].
    pub cosine: Tensor<f32, 1>,
    /// sin 2πj/n, [n/2].
    pub sine: Tensor<f32, 1>,
}

impl FftTables {
    /// Tables for rows of `n` elements.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(device: &Device, n: usize) -> Result<Self, TensorError> {
        let length = (n / 2).max(1);
        let angle = |j: usize| TAU * j as f64 / n.max(1) as f64;
        let cosine: Vec<f32> = (0..length).map(|j| libm::cos(angle(j)) as f32).collect();
        let sine: Vec<f32> = (0..length).map(|j| libm::sin(angle(j)) as f32).collect();
        Ok(FftTables {
            cosine: Tensor::from_slice(device, [length], &cosine)?,
            sine: Tensor::from_slice(device, [length], &sine)?,
        })
    }
}

/// The transform of every row: see [`fft_row`]. `re`, `im`, `out_re`, `out_im`: [rows, n]; n is a power of two up to
/// [`MAX_FFT`], and the launch fails if it is not.
pub fn fft<'c, T: Float>(
    re: &'c Tensor<T, 2>,
    im: &'c Tensor<T, 2>,
    tables: &'c FftTables,
    out_re: &'c mut Tensor<T, 2>,
    out_im: &'c mut Tensor<T, 2>,
    direction: Direction,
) -> KernelCall<'c> {
    let [rows, n] = re.shape();
    let FftTables { cosine, sine } = tables;
    macro_rules! lengths {
        ($($n:literal)*) => {
            match (direction, n) {
                $(
                    (Direction::Forward, ..=$n) =>
                        fft_row::<T, false, $n>(re, im, cosine, sine, out_re, out_im),
                    (Direction::Inverse, ..=$n) =>
                        fft_row::<T, true, $n>(re, im, cosine, sine, out_re, out_im),
                )*
                // Too long: the kernel's assertion says so.
                _ => fft_row::<T, false, 16384>(re, im, cosine, sine, out_re, out_im),
            }
        };
    }
    lengths!(1 2 4 8 16 32 64 128 256 512 1024 2048 4096 8192 16384).grid(rows)
}
