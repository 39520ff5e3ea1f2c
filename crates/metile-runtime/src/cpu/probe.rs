//! The rates of this machine, measured: what kernels can reach at most.

use super::pool::{Pool, pool};
use metile_simd::pages::Pages;
use metile_simd::{Level, elementwise, probe, reduce};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Rates of one or of all threads.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Threads that took part.
    pub threads: usize,
    /// Bytes read from memory a second.
    pub read: f64,
    /// Bytes copied a second, past the caches, read and written counted.
    pub copy: f64,
    /// `f32` multiplications and additions a second, in registers.
    pub multiply: f64,
}

/// Bytes that a thread goes over: more than caches hold.
const BYTES: usize = 128 << 20;

/// How often each rate is measured; the best counts.
const ROUNDS: usize = 5;

/// Measures the machine: with one thread, then with as many as launches use. Takes about a second and
/// 256 MiB of memory a thread.
///
/// # Errors
/// If the threads can't be started.
pub fn probe() -> Result<[Rates; 2], String> {
    let pool = pool()?;
    Ok([rates(pool, 1)?, rates(pool, pool.threads())?])
}

fn rates(pool: &Pool, threads: usize) -> Result<Rates, String> {
    let level = Level::detect();
    let floats = BYTES / 4;
    let source = ones(threads, BYTES)?;
    let read = best(pool, threads, |n| {
        // SAFETY: the region has as many floats, which nobody writes to.
        let floats = unsafe { std::slice::from_raw_parts(source[n].first().cast(), floats) };
        black_box(reduce::sum(level, floats));
        BYTES as u64
    });
    let target = ones(threads, BYTES)?;
    let copy = best(pool, threads, |n| {
        let (from, to) = (source[n].first().cast_const(), target[n].first());
        // SAFETY: each thread has a target of its own, of as many bytes as its source.
        unsafe { elementwise::stream(level, from, to, BYTES) };
        elementwise::fence();
        2 * BYTES as u64
    });
    let multiply = best(pool, threads, |_| {
        probe::multiply(level, 2_000_000, |sum| {
            black_box(sum);
        })
    });
    Ok(Rates { threads, read, copy, multiply })
}

/// Reads memory on all threads, as fast as the machine can: what a kernel that goes over as many bytes is
/// compared with.
#[derive(Debug)]
pub struct Reader {
    parts: Vec<Pages>,
    pool: &'static Pool,
}

impl Reader {
    /// For `bytes` bytes, as even parts of all threads.
    ///
    /// # Errors
    /// If the threads can't be started or there is no room.
    pub fn new(bytes: usize) -> Result<Reader, String> {
        let pool = pool()?;
        let parts = ones(pool.threads(), bytes.div_ceil(pool.threads()).next_multiple_of(4))?;
        Ok(Reader { parts, pool })
    }

    /// Reads them all once; gives the seconds that it took.
    pub fn seconds(&self) -> f64 {
        let level = Level::detect();
        let start = Instant::now();
        self.pool.run(&|n| {
            let part = &self.parts[n];
            // SAFETY: the part has as many floats, which nobody writes to.
            let floats = unsafe { std::slice::from_raw_parts(part.first().cast(), part.len() / 4) };
            black_box(reduce::sum(level, floats));
        });
        start.elapsed().as_secs_f64()
    }
}

/// For each thread a region of ones, in memory as tensors have it.
fn ones(threads: usize, bytes: usize) -> Result<Vec<Pages>, String> {
    let region = |_| {
        let pages = Pages::zeroed(bytes).ok_or(format!("no room for {bytes} bytes"))?;
        // SAFETY: the region has as many floats, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(pages.first().cast::<f32>(), bytes / 4) }.fill(1.0);
        Ok(pages)
    };
    (0..threads).map(region).collect()
}

/// The best rate of a few rounds in which `threads` threads do `work`, which says how much it did.
fn best(pool: &Pool, threads: usize, work: impl Fn(usize) -> u64 + Sync) -> f64 {
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let done = AtomicU64::new(0);
        let start = Instant::now();
        pool.run(&|n| {
            if n < threads {
                done.fetch_add(work(n), Ordering::Relaxed);
            }
        });
        best = best.max(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
    }
    best
}
