//! The threads that programs run on: started once, kept on their processors, awake for a while after
//! each launch.

use super::processors::Processors;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a worker looks for the next launch before it sleeps. Waking it takes longer than many
/// launches do.
const AWAKE: Duration = Duration::from_micros(300);

/// The most threads that `METILE_THREADS` may ask for.
const MAX_THREADS: usize = 1024;

type Job = *const (dyn Fn(usize) + Sync);

#[derive(Debug)]
struct Shared {
    /// Counts launches; a worker that sees it change has a job.
    generation: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    /// Workers that have not finished the job.
    remaining: AtomicUsize,
    asleep: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    panicked: AtomicBool,
}

// SAFETY: `job` is written while no worker has a job, before `generation` tells them of it.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: &'static Shared,
    threads: usize,
    /// Where the threads are, if each has a processor of its own.
    processors: Option<Processors>,
    /// Held while a job is under way: one at a time.
    submit: Mutex<()>,
}

/// The pool of this process.
///
/// # Errors
/// If `METILE_THREADS` is no number of threads, `METILE_SIMD` no level of this machine, or a thread can't
/// be started.
pub(crate) fn pool() -> Result<&'static Pool, String> {
    static POOL: OnceLock<Result<Pool, String>> = OnceLock::new();
    POOL.get_or_init(Pool::start).as_ref().map_err(Clone::clone)
}

fn threads() -> Result<usize, String> {
    match std::env::var("METILE_THREADS") {
        Ok(text) => match text.parse() {
            Ok(n) if (1..=MAX_THREADS).contains(&n) => Ok(n),
            _ => Err(format!("METILE_THREADS={text} is no number from 1 to {MAX_THREADS}")),
        },
        Err(_) => Ok(std::thread::available_parallelism().map_or(1, |n| n.get())),
    }
}

impl Pool {
    fn start() -> Result<Pool, String> {
        metile_simd::Level::asked()?;
        let threads = threads()?;
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            generation: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            remaining: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            panicked: AtomicBool::new(false),
        }));
        // Pinned where there is a processor for each; else the system shares them out.
        let processors = Processors::for_threads(threads);
        for n in 1..threads {
            let processors = processors.clone();
            std::thread::Builder::new()
                .name(format!("metile-{n}"))
                .spawn(move || work(shared, n, processors))
                .map_err(|e| format!("thread {n} of {threads} could not be started: {e}"))?;
        }
        Ok(Pool { shared, threads, processors, submit: Mutex::new(()) })
    }

    /// Threads that a job runs on, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `job` on every thread with its number, and waits for all.
    pub fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        let _alone = self.submit.lock().unwrap_or_else(PoisonError::into_inner);
        if self.threads == 1 {
            return job(0);
        }
        if let Some(processors) = &self.processors {
            processors.step_aside(self.threads);
        }
        let shared = self.shared;
        // SAFETY: the lifetime ends when this function does, and no worker has the job by then.
        let erased: Job = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), Job>(std::ptr::from_ref(job))
        };
        // SAFETY: no worker has a job.
        unsafe { *shared.job.get() = Some(erased) };
        shared.remaining.store(self.threads - 1, Ordering::Relaxed);
        shared.generation.fetch_add(1, Ordering::SeqCst);
        if shared.asleep.load(Ordering::SeqCst) > 0 {
            let _guard = shared.sleep.lock().unwrap_or_else(PoisonError::into_inner);
            shared.wake.notify_all();
        }
        let mine = catch_unwind(AssertUnwindSafe(|| job(0)));
        wait_until(|| shared.remaining.load(Ordering::Acquire) == 0);
        // SAFETY: every worker has finished.
        unsafe { *shared.job.get() = None };
        let theirs = shared.panicked.swap(false, Ordering::Relaxed);
        if let Err(panic) = mine {
            std::panic::resume_unwind(panic);
        }
        assert!(!theirs, "a thread of the pool panicked; its message is above");
    }
}

/// Spins for a moment, then lets others run meanwhile.
pub(super) fn wait_until(done: impl Fn() -> bool) {
    let mut rounds = 0u32;
    while !done() {
        rounds += 1;
        if rounds < 1_000 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

fn work(shared: &'static Shared, n: usize, processors: Option<Processors>) {
    if let Some(processors) = processors {
        processors.pin(n);
    }
    let mut seen = 0;
    loop {
        seen = next(shared, seen);
        // SAFETY: the generation changed, so there is a job, and it stays until this worker is done.
        let job = unsafe { *shared.job.get() };
        if let Some(job) = job {
            // SAFETY: as above.
            let job = unsafe { &*job };
            if catch_unwind(AssertUnwindSafe(|| job(n))).is_err() {
                shared.panicked.store(true, Ordering::Relaxed);
            }
        }
        shared.remaining.fetch_sub(1, Ordering::Release);
    }
}

/// Waits until the generation is not `seen` any more.
fn next(shared: &Shared, seen: u64) -> u64 {
    let start = Instant::now();
    loop {
        for _ in 0..256 {
            let now = shared.generation.load(Ordering::Acquire);
            if now != seen {
                return now;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > AWAKE {
            break;
        }
    }
    let mut guard = shared.sleep.lock().unwrap_or_else(PoisonError::into_inner);
    shared.asleep.fetch_add(1, Ordering::SeqCst);
    loop {
        let now = shared.generation.load(Ordering::SeqCst);
        if now != seen {
            shared.asleep.fetch_sub(1, Ordering::SeqCst);
            return now;
        }
        guard = shared.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
}
