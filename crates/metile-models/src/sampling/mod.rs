//! The next token, drawn from logits.

mod filter;
mod random;

use crate::Error;
use random::SplitMix64;

/// How the next token is drawn. The default is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Logits are divided by it; 0 takes the token with the greatest logit, of equal ones that with
    /// the lowest id. Finite, at least 0.
    pub temperature: f32,
    /// Only the `top_k` most likely tokens stay; 0: all.
    pub top_k: usize,
    /// Only the fewest most likely tokens whose probabilities sum to at least this stay, the most
    /// likely one always; 1: all. From 0 to 1.
    pub top_p: f32,
    /// Only tokens with at least this share of the greatest probability stay; 0: all. From 0 to 1.
    pub min_p: f32,
    /// Logits of tokens in the history are divided by it where positive, multiplied where negative
    /// (Keskar et al., CTRL, 2019); 1: none. Finite, positive.
    pub repetition_penalty: f32,
    /// What the random numbers follow from: one seed, one sequence.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let (temperature, top_k, top_p, min_p) = (0.0, 0, 1.0, 0.0);
        Settings { temperature, top_k, top_p, min_p, repetition_penalty: 1.0, seed: 0 }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        let refuse = |setting, value: f32, allowed| {
            Err(Error::SamplingSetting { setting, value: value.to_string(), allowed })
        };
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return refuse("temperature", self.temperature, "a finite number of at least 0");
        }
        for (name, share) in [("top-p", self.top_p), ("min-p", self.min_p)] {
            if !(0.0..=1.0).contains(&share) {
                return refuse(name, share, "a number from 0 to 1");
            }
        }
        let penalty = self.repetition_penalty;
        if !(penalty.is_finite() && penalty > 0.0) {
            return refuse("repetition penalty", penalty, "a finite positive number");
        }
        Ok(())
    }
}

/// Draws tokens one after another.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: Settings,
    random: SplitMix64,
    /// (weight, id) of the tokens that may be drawn.
    candidates: Vec<(f32, u32)>,
    seen: Vec<u32>,
}

impl Sampler {
    /// A sampler at the start of its seed's sequence.
    ///
    /// # Errors
    /// If a setting is NaN or outside its range.
    pub fn new(settings: Settings) -> Result<Sampler, Error> {
        settings.check()?;
        let random = SplitMix64::new(settings.seed);
        Ok(Sampler { settings, random, candidates: Vec::new(), seen: Vec::new() })
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The id of the next token, from the logit of every token; `history` are the ids before it. The
    /// repetition penalty is applied in `logits`. Order: penalty, temperature, top-k, top-p over what
    /// top-k left, min-p.
    ///
    /// # Errors
    /// If a logit is NaN or +inf, or there is none above -inf.
    pub fn sample(&mut self, logits: &mut [f32], history: &[u32]) -> Result<u32, Error> {
        self.penalize(logits, history);
        let best = greatest(logits)?;
        if self.settings.temperature == 0.0 {
            return Ok(best);
        }
        let Settings { temperature, top_k, top_p, min_p, .. } = self.settings;
        let top = logits[best as usize];
        // The greatest exponent is 0, so no temperature overflows; the difference is in f64 because two
        // finite f32 may lie further apart than f32 reaches.
        let weight = |logit: f32| {
            ((f64::from(logit) - f64::from(top)) / f64::from(temperature)).exp() as f32
        };
        self.candidates.clear();
        self.candidates.extend((0u32..).zip(logits.iter()).map(|(id, &logit)| (weight(logit), id)));
        filter::top_k(&mut self.candidates, top_k);
        filter::top_p(&mut self.candidates, top_p);
        // Weights are shares of the greatest one already.
        self.candidates.retain(|&(weight, _)| weight >= min_p);
        Ok(self.draw().unwrap_or(best))
    }

    fn penalize(&mut self, logits: &mut [f32], history: &[u32]) {
        let penalty = self.settings.repetition_penalty;
        if penalty == 1.0 {
            return;
        }
        self.seen.clear();
        self.seen.extend(history);
        self.seen.sort_unstable();
        self.seen.dedup();
        for &id in &self.seen {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// An id with the probability that its weight has in the candidates' sum.
    fn draw(&mut self) -> Option<u32> {
        let total: f64 = self.candidates.iter().map(|&(weight, _)| f64::from(weight)).sum();
        let mut left = self.random.unit() * total;
        let mut last = None;
        for &(weight, id) in self.candidates.iter().filter(|&&(weight, _)| weight > 0.0) {
            last = Some(id);
            left -= f64::from(weight);
            if left < 0.0 {
                break;
            }
        }
        last
    }
}

/// The lowest id of those with the greatest logit.
fn greatest(logits: &[f32]) -> Result<u32, Error> {
    let mut best = None;
    for (id, &logit) in (0u32..).zip(logits) {
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(Error::Logits { problem: format!("the logit of token {id} is {logit}") });
        }
        if logit > best.map_or(f32::NEG_INFINITY, |(logit, _)| logit) {
            best = Some((logit, id));
        }
    }
    best.map(|(_, id)| id).ok_or_else(|| Error::Logits {
        problem: format!("none of the {} logits is above -inf", logits.len()),
    })
}

#[cfg(test)]
mod tests;
