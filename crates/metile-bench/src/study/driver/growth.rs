//! How many launches a sample has, and whether times grow with them.

use super::Driver;
use crate::study::refusal::{Refusal, rules};
use crate::study::{CasePlan, Repeats, Study, Turn};

/// Times of n, 2n and 4n launches are taken so often; the least count.
const ATTEMPTS: usize = 3;
/// The arm is refused if times don't grow in so many tries: other programs may disturb one.
const TRIES: usize = 5;
/// What four times the launches take at least, in times of one: half of what they should, as noise may lengthen
/// the shorter ones.
const GROWTH: f64 = 2.0;
/// Seconds of a launch from which one attempt is enough.
const LONG: f64 = 0.05;
/// Launches of a sample at most.
const MOST: u64 = 4096;

impl Driver<'_> {
    /// Launches of each sample of the case: as many as take the arms the time that is asked for. Refuses an arm
    /// whose times do not grow with launches.
    pub(super) fn launches(
        &mut self,
        study: &mut dyn Study,
        case: &CasePlan,
        metric: &str,
    ) -> Result<u64, Refusal> {
        let (wanted, mut launches) = match case.repeats {
            Repeats::Once => return Ok(1),
            Repeats::Exactly(launches) => (0.0, launches),
            Repeats::Seconds(wanted) => (wanted, 1),
        };
        let mut longest = 0.0f64;
        for arm in &case.arms {
            self.place.arm = Some(arm.clone());
            // The first launch warms up: it is not counted.
            self.least(study, case, arm, metric, 1, 1)?;
            let once = self.least(study, case, arm, metric, 1, ATTEMPTS)?;
            longest = longest.max(once);
            let needed = (wanted / once.max(1e-9)).ceil().clamp(1.0, MOST as f64) as u64;
            launches = launches.max(needed);
        }
        // What takes long has little noise.
        let attempts = if longest > LONG { 1 } else { ATTEMPTS };
        for arm in &case.arms {
            self.place.arm = Some(arm.clone());
            let mut seen = [0.0; 3];
            let mut grow = false;
            for _ in 0..TRIES {
                for (n, factor) in [1, 2, 4].into_iter().enumerate() {
                    let count = factor * launches;
                    let once = self.least(study, case, arm, metric, count, attempts)?;
                    seen[n] = once * count as f64;
                }
                let [one, two, four] = seen;
                grow = four >= GROWTH * one && two <= four;
                if grow {
                    break;
                }
            }
            if !grow {
                let [one, two, four] = seen;
                let message = format!(
                    "{launches}, {} and {} launches took {one:.3e}, {two:.3e} and {four:.3e} s",
                    2 * launches,
                    4 * launches
                );
                return Err(Refusal::rule(rules::GROWTH, arm, message));
            }
        }
        self.place.arm = None;
        Ok(launches)
    }

    /// The least time of a launch over a few runs of so many.
    fn least(
        &mut self,
        study: &mut dyn Study,
        case: &CasePlan,
        arm: &str,
        metric: &str,
        launches: u64,
        attempts: usize,
    ) -> Result<f64, Refusal> {
        let mut least = f64::INFINITY;
        for attempt in 0..attempts {
            self.check_interrupted()?;
            let seed = self.turn_seed("growth", &case.name, attempt as u64);
            let turn = Turn { arm, pair: attempt as u64, warmup: true, seed, launches };
            let (_, timed, _) = self.turn(study, case, &turn)?;
            let value = timed.values.get(metric).copied().unwrap_or(f64::NAN);
            least = least.min(value);
        }
        Ok(least)
    }
}
