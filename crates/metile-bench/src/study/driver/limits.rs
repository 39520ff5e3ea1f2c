//! Samples that nothing could be fast enough for.

use crate::schema::{Figure, Limits, Work};
use crate::study::refusal::{Refusal, rules};

/// What the device can do at most.
#[derive(Debug)]
pub struct Speed {
    /// Probed rates: the best of all probes of the run.
    pub limits: Limits,
    last_cache: Option<u64>,
}

impl Speed {
    /// The rates that `limits` has, and the size of the last cache where it is known.
    pub fn new(limits: Limits, last_cache: Option<u64>) -> Speed {
        Speed { limits, last_cache }
    }

    /// Refuses `seconds` for `work` if the device can't be that fast. Before that the rates are probed once
    /// more: the first probe may have met a slow moment.
    ///
    /// # Errors
    /// If it is too fast.
    pub fn check(
        &mut self,
        arm: &str,
        work: &Work,
        seconds: f64,
        probe: &dyn Fn() -> Limits,
    ) -> Result<(), Refusal> {
        if self.refusal(arm, work, seconds).is_some() {
            let again = probe();
            greater(&mut self.limits.read_bytes_per_s, again.read_bytes_per_s);
            greater(&mut self.limits.copy_bytes_per_s, again.copy_bytes_per_s);
            greater(&mut self.limits.flop_per_s, again.flop_per_s);
        }
        self.refusal(arm, work, seconds).map_or(Ok(()), Err)
    }

    fn refusal(&self, arm: &str, work: &Work, seconds: f64) -> Option<Refusal> {
        let above = |rate: f64, limit: &Figure| {
            limit.value.is_some_and(|limit| rate > limit * (1.0 + self.limits.allowance))
        };
        if let Some(flop) = work.flop {
            let rate = flop as f64 / seconds;
            if above(rate, &self.limits.flop_per_s) {
                let message = format!(
                    "{flop} operations in {seconds:.3e} s are {:.1} GFLOP/s, and the device's probed peak \
                     is {:.1}",
                    rate / 1e9,
                    self.limits.flop_per_s.value.unwrap_or(f64::NAN) / 1e9
                );
                return Some(Refusal::rule(rules::PEAK, arm, message));
            }
        }
        // What does not fit the last cache comes from memory, launch after launch; what fits may still lie there.
        if let (Some(bytes), Some(cache)) = (work.distinct_read_bytes, self.last_cache)
            && bytes > cache
        {
            let rate = (bytes - cache) as f64 / seconds;
            if above(rate, &self.limits.read_bytes_per_s) {
                let message = format!(
                    "at least {} of {bytes} distinct bytes in {seconds:.3e} s are {:.1} GB/s, and memory was \
                     probed to give {:.1}",
                    bytes - cache,
                    rate / 1e9,
                    self.limits.read_bytes_per_s.value.unwrap_or(f64::NAN) / 1e9
                );
                return Some(Refusal::rule(rules::READ_RATE, arm, message));
            }
        }
        None
    }
}

fn greater(known: &mut Figure, again: Figure) {
    if again.value > known.value {
        *known = again;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(flop: f64, read: f64) -> Limits {
        Limits {
            read_bytes_per_s: Figure::new(read),
            copy_bytes_per_s: Figure::new(read),
            flop_per_s: Figure::new(flop),
            allowance: 0.2,
        }
    }

    #[test]
    fn more_operations_than_the_peak_are_refused() {
        let mut speed = Speed::new(limits(100.0, 10.0), Some(50));
        let probe = || limits(90.0, 9.0);
        let work = Work { flop: Some(1000), ..Work::default() };
        assert!(speed.check("a", &work, 8.5, &probe).is_ok());
        let refused = speed.check("a", &work, 8.0, &probe).unwrap_err();
        assert!(matches!(refused, Refusal::Rule { rule: rules::PEAK, .. }));
        // The second probe found a faster device.
        assert!(speed.check("a", &work, 8.0, &|| limits(130.0, 9.0)).is_ok());
        assert_eq!(speed.limits.flop_per_s.value, Some(130.0));
    }

    #[test]
    fn memory_is_not_read_faster_than_it_is_and_caches_may_be() {
        let mut speed = Speed::new(limits(100.0, 10.0), Some(50));
        let probe = || limits(90.0, 9.0);
        let work = |bytes| Work { distinct_read_bytes: Some(bytes), ..Work::default() };
        assert!(speed.check("a", &work(50), 0.001, &probe).is_ok());
        assert!(speed.check("a", &work(170), 10.1, &probe).is_ok());
        let refused = speed.check("a", &work(170), 9.9, &probe).unwrap_err();
        assert!(matches!(refused, Refusal::Rule { rule: rules::READ_RATE, .. }));
    }
}
