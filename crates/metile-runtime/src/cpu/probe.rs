//! The rates of this machine, measured: what kernels can reach at most.

use super::pool::{Pool, pool};
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
    Ok([rates(pool, 1), rates(pool, pool.threads())])
}

fn rates(pool: &Pool, threads: usize) -> Rates {
    let level = Level::detect();
    let floats = BYTES / 4;
    let source: Vec<Vec<f32>> = (0..threads).map(|_| vec![1.0; floats]).collect();
    let read = best(pool, threads, |n| {
        black_box(reduce::sum(level, &source[n]));
        BYTES as u64
    });
    let mut target: Vec<Vec<f32>> = (0..threads).map(|_| vec![0.0; floats]).collect();
    let places: Vec<AtomicU64> =
        target.iter_mut().map(|t| AtomicU64::new(t.as_mut_ptr() as u64)).collect();
    let copy = best(pool, threads, |n| {
        let to = places[n].load(Ordering::Relaxed) as *mut u8;
        // SAFETY: each thread has a target of its own, of as many bytes as its source.
        unsafe { elementwise::stream(level, source[n].as_ptr().cast(), to, BYTES) };
        elementwise::fence();
        2 * BYTES as u64
    });
    drop(target);
    let multiply = best(pool, threads, |_| {
        probe::multiply(level, 2_000_000, |sum| {
            black_box(sum);
        })
    });
    Rates { threads, read, copy, multiply }
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
