//! Rates of matrix products on one thread, beside the machine's own limits in the same run. Each is
//! the best of many short repetitions. Pin it: `taskset -c 1 cargo run --release -p metile-simd
//! --example matrix_rates`; an argument keeps the lines that contain it.
#![allow(clippy::print_stdout)]

use metile_ir::DType;
use metile_ir::dtype::PackedFormat;
use metile_simd::Level;
use metile_simd::lanes::{self, LANES, Lanes, Work};
use metile_simd::matrix::{Operand, Scratch, Source, dot};
use std::time::{Duration, Instant};

fn main() {
    let level = Level::detect();
    let filter = std::env::args().nth(1).unwrap_or_default();
    println!("level {}", level.name());
    let bench = Bench { level, filter };
    bench.limits();
    bench.panels();
    bench.rows_and_columns();
    bench.packed();
}

struct Bench {
    level: Level,
    filter: String,
}

/// A plain matrix, or the bytes of a packed one.
struct Memory {
    bytes: Vec<u64>,
    rows: usize,
    k: usize,
}

impl Memory {
    fn plain(dtype: DType, rows: usize, k: usize) -> Memory {
        let bits: u64 = match dtype {
            DType::F32 => 0x3f00_0000_3f00_0000,
            DType::F16 => 0x3800_3800_3800_3800,
            _ => 0x3f00_3f00_3f00_3f00,
        };
        Memory { bytes: vec![bits; (rows * k * dtype.bytes()).div_ceil(8)], rows, k }
    }

    fn packed(format: PackedFormat, rows: usize, k: usize) -> Memory {
        let bytes: usize = format.block_bytes().iter().sum();
        // 0x2c2c is 0.065 as an f16: scales are finite wherever they lie.
        let words = (rows * k / format.block_elements() * bytes).div_ceil(8);
        Memory { bytes: vec![0x2c2c_2c2c_2c2c_2c2c; words], rows, k }
    }

    fn base(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    fn strided(&self, dtype: DType, row_stride: isize, k_stride: isize) -> Operand {
        let source = Source::Plain { dtype, base: self.base(), row_stride, k_stride };
        Operand { source, valid_rows: self.rows, valid_k: self.k, version: 0 }
    }

    fn blocks(&self, format: PackedFormat) -> Operand {
        let blocks = self.k / format.block_elements();
        let mut at = 0;
        let mut parts = [self.base(); 3];
        for (part, bytes) in parts.iter_mut().zip(format.block_bytes()) {
            *part = self.base().wrapping_add(at);
            at += self.rows * blocks * bytes;
        }
        let source = Source::Packed { format, parts, row_stride: blocks as isize, first_k: 0 };
        Operand { source, valid_rows: self.rows, valid_k: self.k, version: 0 }
    }
}

impl Bench {
    /// Whether the line is asked for; memory is allocated only then.
    fn wants(&self, name: &str, [m, n, k]: [usize; 3]) -> bool {
        format!("{name} {m}x{n}x{k}").contains(&self.filter)
    }

    /// The best seconds of a call within a quarter of a second.
    fn best(&self, name: &str, mut call: impl FnMut()) -> Option<f64> {
        if !name.contains(&self.filter) {
            return None;
        }
        let end = Instant::now() + Duration::from_millis(250);
        let mut best = f64::INFINITY;
        call();
        while Instant::now() < end {
            let start = Instant::now();
            call();
            best = best.min(start.elapsed().as_secs_f64());
        }
        Some(best)
    }

    fn limits(&self) {
        let start = |bytes: usize| vec![1.0f32; bytes / 4];
        for (name, bytes) in
            [("read 192 KiB", 192 << 10), ("read 8 MiB", 8 << 20), ("read 256 MiB", 256 << 20)]
        {
            let memory = start(bytes);
            let mut sum = 0.0;
            let best = self.best(name, || {
                // SAFETY: a level of this machine.
                sum += unsafe { lanes::run(self.level, Read(&memory)) };
            });
            if let Some(s) = best {
                println!("{name:44} {:7.1} GB/s {:1.0}", bytes as f64 / s / 1e9, sum * 0.0);
            }
        }
        let mut sum = 0.0;
        let best = self.best("multiply-add peak", || {
            // SAFETY: a level of this machine.
            sum += unsafe { lanes::run(self.level, Peak) };
        });
        if let Some(s) = best {
            let flops = (PEAK_STEPS * 12 * LANES * 2) as f64;
            println!(
                "{:44} {:7.1} GFLOP/s {:1.0}",
                "multiply-add peak",
                flops / s / 1e9,
                sum * 0.0
            );
        }
    }

    fn product(&self, name: &str, shape: [usize; 3], a: &Operand, b: &Operand, bytes: f64) {
        let [m, n, k] = shape;
        let stride = n.max(1024) + 16;
        let mut acc = vec![0.0f32; m * stride];
        let mut scratch = Scratch::new();
        let name = format!("{name} {m}x{n}x{k}");
        let best = self.best(&name, || {
            // SAFETY: operands and results lie in their vectors; the level is the machine's.
            unsafe { dot(self.level, m, n, k, a, b, acc.as_mut_ptr(), stride, &mut scratch) };
        });
        if let Some(s) = best {
            let flops = 2.0 * (m * n * k) as f64;
            println!("{name:44} {:7.1} GFLOP/s {:7.1} GB/s of b", flops / s / 1e9, bytes / s / 1e9);
        }
    }

    fn panels(&self) {
        for [m, n, k] in [
            [256, 512, 256],
            [128, 128, 256],
            [128, 512, 512],
            [512, 1024, 512],
            [256, 256, 64],
            [16, 512, 512],
            [64, 64, 64],
        ] {
            for dtype in [DType::F32, DType::BF16] {
                if !self.wants(&format!("panels {dtype}"), [m, n, k])
                    && !self.wants(&format!("panels {dtype} [k, n]"), [m, n, k])
                {
                    continue;
                }
                let stride = 2048;
                let (mut a, mut b) =
                    (Memory::plain(dtype, m, stride), Memory::plain(dtype, n, stride));
                (a.k, b.k) = (k, k);
                let size = (n * k * dtype.bytes()) as f64;
                let [x, w] = [&a, &b].map(|o| o.strided(dtype, stride as isize, 1));
                self.product(&format!("panels {dtype}"), [m, n, k], &x, &w, size);
                if dtype == DType::F32 {
                    let mut across = Memory::plain(dtype, k, stride);
                    (across.rows, across.k) = (n, k);
                    let w = across.strided(dtype, 1, stride as isize);
                    self.product(&format!("panels {dtype} [k, n]"), [m, n, k], &x, &w, size);
                }
            }
        }
        for format in [PackedFormat::Q4_1, PackedFormat::Q8_0, PackedFormat::Q6K] {
            let (a, b) = (Memory::plain(DType::F32, 256, 512), Memory::packed(format, 512, 512));
            let size = b.bytes.len() as f64 * 8.0;
            let x = a.strided(DType::F32, 512, 1);
            self.product(
                &format!("panels f32 x {format}"),
                [256, 512, 512],
                &x,
                &b.blocks(format),
                size,
            );
        }
    }

    fn rows_and_columns(&self) {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let size = dtype.bytes();
            // From the second-level cache, and from memory.
            for (n, k) in [(192 * 1024 / 1024 / size, 1024), (65536 / size * 4, 1024)] {
                for m in [1, 2, 4, 8] {
                    if !self.wants(&format!("rows {dtype}"), [m, n, k]) {
                        continue;
                    }
                    let (a, b) = (Memory::plain(DType::F32, m, k), Memory::plain(dtype, n, k));
                    let x = a.strided(DType::F32, k as isize, 1);
                    let w = b.strided(dtype, k as isize, 1);
                    self.product(
                        &format!("rows {dtype}"),
                        [m, n, k],
                        &x,
                        &w,
                        (n * k * size) as f64,
                    );
                }
            }
            for (n, k) in [(64, 256), (128, 128), (1024, 65536 / size)] {
                for m in [1, 4, 8] {
                    if !self.wants(&format!("columns {dtype}"), [m, n, k]) {
                        continue;
                    }
                    let (a, b) = (Memory::plain(DType::F32, m, k), Memory::plain(dtype, k, n));
                    let x = a.strided(DType::F32, k as isize, 1);
                    let w = b.strided(dtype, 1, n as isize);
                    let w = Operand { valid_rows: n, valid_k: k, ..w };
                    self.product(
                        &format!("columns {dtype}"),
                        [m, n, k],
                        &x,
                        &w,
                        (n * k * size) as f64,
                    );
                }
            }
        }
        for (n, k) in [(256, 64), (256, 128), (64, 64)] {
            for m in [1, 4, 16] {
                let (a, b) = (Memory::plain(DType::F32, m, k), Memory::plain(DType::F32, n, k));
                let x = a.strided(DType::F32, k as isize, 1);
                let w = b.strided(DType::F32, k as isize, 1);
                self.product("rows scores", [m, n, k], &x, &w, (n * k * 4) as f64);
            }
        }
    }

    fn packed(&self) {
        let affine = |name| PackedFormat::from_name(name).expect("a format's name");
        let mut formats = PackedFormat::GGUF.to_vec();
        formats.extend([affine("affine4_g64_bf16"), affine("affine8_g64_bf16")]);
        for format in formats {
            for m in [1, 2, 4, 8] {
                let (n, k) = (256, 1024);
                let b = Memory::packed(format, n, k);
                let size = b.bytes.len() as f64 * 8.0;
                let a = Memory::plain(DType::F32, m, k);
                let x = a.strided(DType::F32, k as isize, 1);
                let w = b.blocks(format);
                self.product(&format!("fused f32 x {format}"), [m, n, k], &x, &w, size);
                let a = Memory::packed(PackedFormat::Q8_0, m, k);
                let x = a.blocks(PackedFormat::Q8_0);
                self.product(&format!("integers q8_0 x {format}"), [m, n, k], &x, &w, size);
            }
        }
        let format = PackedFormat::Q4_1;
        let (n, k) = (49152, 576);
        let b = Memory::packed(format, n, k);
        let a = Memory::plain(DType::F32, 1, k);
        let x = a.strided(DType::F32, k as isize, 1);
        let size = b.bytes.len() as f64 * 8.0;
        self.product("fused from memory, q4_1", [1, n, k], &x, &b.blocks(format), size);
    }
}

/// Reads everything once.
struct Read<'a>(&'a [f32]);

impl Work for Read<'_> {
    type Output = f32;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f32 {
        // SAFETY: chunks have 64 elements.
        unsafe {
            let mut sums = [L::splat(0.0); 8];
            for chunk in self.0.chunks_exact(64) {
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(L::load(chunk.as_ptr().add(i * LANES)));
                }
                L::prefetch(chunk.as_ptr().wrapping_add(320).cast());
                L::prefetch(chunk.as_ptr().wrapping_add(336).cast());
                L::prefetch(chunk.as_ptr().wrapping_add(352).cast());
                L::prefetch(chunk.as_ptr().wrapping_add(368).cast());
            }
            sums.into_iter().fold(L::splat(0.0), L::add).sum()
        }
    }
}

const PEAK_STEPS: usize = 20_000;

/// Twelve independent chains of multiply-adds.
struct Peak;

impl Work for Peak {
    type Output = f32;
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> f32 {
        // SAFETY: the level is the machine's.
        unsafe {
            let mut sums = [L::splat(std::hint::black_box(1.0)); 12];
            let (x, y) =
                (L::splat(std::hint::black_box(0.5)), L::splat(std::hint::black_box(0.25)));
            for _ in 0..PEAK_STEPS {
                for sum in &mut sums {
                    *sum = x.mul_add(*sum, y);
                }
            }
            sums.into_iter().fold(L::splat(0.0), L::add).sum()
        }
    }
}
