//! The policies: in which order two requests use the device.

use crate::model_studies::candidate::Candidate;
use crate::model_studies::workload::Prompt;
use crate::study::Refusal;
use metile_models::decoder::Logits;
use std::collections::BTreeMap;
use std::time::Instant;

/// What a request is.
pub struct Request {
    /// Its model, over weights that both share.
    pub candidate: Candidate,
    /// Its prompt.
    pub prompt: Prompt,
    /// Tokens to generate.
    pub outputs: usize,
}

/// Who is served when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The first request to its end, then the other.
    Fifo,
    /// The arriving prompt at once, then both in turn.
    Eager,
    /// A chunk of the arriving prompt and a step of the first request in turn.
    Chunked,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Ids of both requests.
    pub ids: [Vec<u32>; 2],
    /// Seconds from the start until each id was on the host.
    pub stamps: [Vec<f64>; 2],
    /// Seconds from the start until the second request arrived.
    pub arrived: f64,
}

/// A request under way.
struct Progress<'r> {
    request: &'r mut Request,
    read: usize,
    ids: Vec<u32>,
    stamps: Vec<f64>,
    start: Instant,
}

impl Progress<'_> {
    fn is_done(&self) -> bool {
        self.ids.len() == self.request.outputs
    }

    fn is_reading(&self) -> bool {
        self.read < self.request.prompt.ids.len()
    }

    fn broken(error: metile_models::decoder::Error) -> Refusal {
        Refusal::Broken(error.to_string())
    }

    /// The next chunk of the prompt; with the last one, the first id.
    fn read(&mut self) -> Result<(), Refusal> {
        let model = self.request.candidate.model();
        let ids = &self.request.prompt.ids;
        let end = (self.read + model.options().chunk).min(ids.len());
        let wanted = if end == ids.len() { Logits::Last } else { Logits::None };
        model.extend(&ids[self.read..end], wanted).map_err(Self::broken)?;
        self.read = end;
        if end == ids.len() { self.take() } else { Ok(()) }
    }

    /// One step of generation.
    fn step(&mut self) -> Result<(), Refusal> {
        if let Some(&id) = self.ids.last() {
            self.request.candidate.step(id)?;
        }
        self.take()
    }

    fn take(&mut self) -> Result<(), Refusal> {
        self.ids.push(self.request.candidate.token()?);
        self.stamps.push(self.start.elapsed().as_secs_f64());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Refusal> {
        while self.is_reading() {
            self.read()?;
        }
        while !self.is_done() {
            self.step()?;
        }
        Ok(())
    }
}

impl Policy {
    /// Every policy, that of the baseline first.
    pub const ALL: [Policy; 3] = [Policy::Fifo, Policy::Eager, Policy::Chunked];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Fifo => "fifo",
            Policy::Eager => "eager",
            Policy::Chunked => "chunked",
        }
    }

    /// The policy called `name`.
    pub fn from_name(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// What it does.
    pub const fn what(self) -> &'static str {
        match self {
            Policy::Fifo => "the first request is finished before the other's prompt is read",
            Policy::Eager => "the arriving prompt is read at once, then both take steps in turn",
            Policy::Chunked => {
                "a chunk of the arriving prompt and a step of the first request in turn, then steps of both"
            }
        }
    }

    /// Runs both requests; the second arrives when the first has `arrival` outputs.
    ///
    /// # Errors
    /// If a kernel fails.
    pub fn run(self, requests: &mut [Request; 2], arrival: usize) -> Result<Outcome, Refusal> {
        let start = Instant::now();
        let [first, second] = requests.each_mut().map(|request| {
            request.candidate.model().reset();
            Progress { request, read: 0, ids: Vec::new(), stamps: Vec::new(), start }
        });
        let (mut first, mut second) = (first, second);
        while first.is_reading() {
            first.read()?;
        }
        while first.ids.len() < arrival {
            first.step()?;
        }
        let arrived = start.elapsed().as_secs_f64();
        match self {
            Policy::Fifo => first.finish()?,
            Policy::Eager => {
                while second.is_reading() {
                    second.read()?;
                }
            }
            Policy::Chunked => {
                while second.is_reading() {
                    second.read()?;
                    if !first.is_done() {
                        first.step()?;
                    }
                }
            }
        }
        while !(first.is_done() && second.is_done()) {
            if !first.is_done() {
                first.step()?;
            }
            if second.is_reading() {
                second.read()?;
            } else if !second.is_done() {
                second.step()?;
            }
        }
        Ok(Outcome { ids: [first.ids, second.ids], stamps: [first.stamps, second.stamps], arrived })
    }
}

impl Outcome {
    /// The study's metrics, in seconds.
    ///
    /// # Errors
    /// If a request has no tokens.
    pub fn metrics(&self) -> Result<BTreeMap<String, f64>, Refusal> {
        let [first, second] = &self.stamps;
        let mut between: Vec<f64> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
        between.sort_by(f64::total_cmp);
        let (Some(&end), Some(&other_end), Some(&begin), Some(&most)) =
            (first.last(), second.last(), second.first(), between.last())
        else {
            return Err(Refusal::Broken("a request has too few tokens to time".to_owned()));
        };
        let values = [
            ("makespan", end.max(other_end)),
            ("arriving_ttft", begin - self.arrived),
            ("inter_token_p50", percentile(&between, 50)),
            ("inter_token_p95", percentile(&between, 95)),
            ("inter_token_p99", percentile(&between, 99)),
            ("inter_token_max", most),
        ];
        Ok(values.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

/// The nearest-rank percentile of ascending values, of which there is at least one.
fn percentile(ascending: &[f64], percent: usize) -> f64 {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending[rank - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_observations() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 100.0);
        assert_eq!(percentile(&values, 95), 190.0);
        assert_eq!(percentile(&values, 99), 198.0);
        assert_eq!(percentile(&values[..1], 99), 1.0);
    }

    #[test]
    fn metrics_are_of_the_first_requests_gaps_and_the_seconds_wait() {
        let outcome = Outcome {
            ids: Default::default(),
            stamps: [vec![1.0, 1.5, 3.5, 4.0], vec![3.0, 9.0]],
            arrived: 1.25,
        };
        let metrics = outcome.metrics().unwrap();
        assert_eq!(metrics["makespan"], 9.0);
        assert_eq!(metrics["arriving_ttft"], 1.75);
        assert_eq!(metrics["inter_token_p50"], 0.5);
        assert_eq!(metrics["inter_token_max"], 2.0);
    }
}
