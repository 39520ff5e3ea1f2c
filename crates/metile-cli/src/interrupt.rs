//! Ctrl-C: ends what is being generated; where nothing is, or asked again, the program.

use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What Ctrl-C sets.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    cancelled: Arc<AtomicBool>,
    running: Arc<AtomicBool>,
}

/// The status of a program that Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

impl Interrupt {
    /// Takes over Ctrl-C for the rest of the program.
    pub fn install() -> anyhow::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let seen = interrupt.clone();
        ctrlc::set_handler(move || {
            let running = seen.running.load(Ordering::Relaxed);
            if !running || seen.cancelled.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED);
            }
        })
        .context("Ctrl-C can't be taken over")?;
        Ok(interrupt)
    }

    /// Runs `work`, which Ctrl-C ends by the flag it is given.
    pub fn during<T>(&self, work: impl FnOnce(&AtomicBool) -> T) -> T {
        self.cancelled.store(false, Ordering::Relaxed);
        self.running.store(true, Ordering::Relaxed);
        let result = work(&self.cancelled);
        self.running.store(false, Ordering::Relaxed);
        result
    }
}
