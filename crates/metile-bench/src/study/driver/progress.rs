//! Progress on stderr.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for each phase's gates and each case's trials; nothing where stderr is no terminal.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    bar: ProgressBar,
}

impl Progress {
    /// Bars, if they are to be `shown`.
    pub fn new(shown: bool) -> Progress {
        Progress { shown, bar: ProgressBar::hidden() }
    }

    /// Begins a bar of so many steps.
    pub fn begin(&mut self, what: String, steps: u64) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::new(steps);
        if !self.shown {
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        if let Ok(style) = ProgressStyle::with_template("{msg:48} {bar:24} {pos}/{len} {elapsed}") {
            self.bar.set_style(style);
        }
        self.bar.set_message(what);
    }

    /// A step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Ends the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
