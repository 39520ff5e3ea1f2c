//! From a prompt's ids to text: the loop around the decoder.

mod stop_strings;

use crate::config::ModelConfig;
use crate::decoder::{self, Logits, Model};
use crate::sampling::{Sampler, Settings};
use crate::tokenizer::{TextStream, Tokenizer};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stop_strings::{Passed, StopStrings};

/// What is asked of a model.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The whole text so far, as ids. What its beginning shares with the model's cache is not read again.
    pub prompt: Vec<u32>,
    /// The most tokens to generate; `None` for as many as come.
    pub max_tokens: Option<usize>,
    /// How the next token is chosen.
    pub sampling: Settings,
    /// Whether end tokens are tokens like others.
    pub ignore_end: bool,
    /// Texts that end the generation; neither they nor what follows is part of the result.
    pub stop: Vec<String>,
    /// Whether the logits of every prompt position are wanted. Nothing of the cache is reused then.
    pub every_logit: bool,
}

impl Request {
    /// Whether a model of `config` with room for `context` tokens can follow it.
    ///
    /// # Errors
    /// If the prompt is empty, has an id outside of the vocabulary, or leaves no room for what is
    /// asked for; if stop strings come without a tokenizer; if a sampling setting makes no sense.
    pub fn check(
        &self,
        config: &ModelConfig,
        context: usize,
        has_tokenizer: bool,
    ) -> Result<(), decoder::Error> {
        let prompt = self.prompt.len();
        if prompt == 0 {
            return Err(decoder::Error::NoPrompt);
        }
        let asked = self.max_tokens.unwrap_or(1);
        if prompt.saturating_add(asked) > context {
            return Err(decoder::Error::Context { prompt, asked, context });
        }
        if !has_tokenizer && !self.stop.is_empty() {
            let problem = "stop strings need a tokenizer, and the checkpoint has none".to_owned();
            return Err(decoder::Error::Option(problem));
        }
        Sampler::new(self.sampling)?;
        decoder::check_ids(&self.prompt, config.vocabulary)
    }
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token, or a stop string.
    Stop,
    /// As many tokens as were asked for.
    Length,
    /// The caller wanted no more.
    Cancelled,
}

impl Finish {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// How long it took. Recording of kernels is apart: it happens once per size of prompt.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Compiling and recording what was not recorded yet.
    pub record: Duration,
    /// Reading the prompt.
    pub prefill: Duration,
    /// From the prompt's first token read to the first token generated.
    pub first_token: Option<Duration>,
    /// From the first token generated to the last.
    pub decode: Duration,
    /// Tokens of the prompt that were read.
    pub prefill_tokens: usize,
    /// Tokens of the prompt that were in the cache already.
    pub reused_tokens: usize,
    /// Tokens generated after the first.
    pub decode_tokens: usize,
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

impl Times {
    /// Prompt tokens read per second.
    pub fn prefill_rate(&self) -> Option<f64> {
        rate(self.prefill_tokens, self.prefill)
    }

    /// Tokens generated per second, the first not counted: it is the prompt's.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.decode_tokens, self.decode)
    }
}

/// What came of a request.
#[derive(Clone, Debug)]
pub struct Generation {
    /// The ids generated; an end token or the tokens of a stop string are the last of them.
    pub ids: Vec<u32>,
    /// Their text, without end tokens and from before a stop string; `None` without a tokenizer.
    pub text: Option<String>,
    /// Why it ended.
    pub finish: Finish,
    /// How long it took.
    pub times: Times,
    /// The logits of each prompt position, if they were asked for.
    pub logits: Option<Vec<Vec<f32>>>,
}

/// Ids on their way to text and out.
struct Output<'a> {
    stream: Option<TextStream<'a>>,
    stop: StopStrings,
    text: String,
    on_text: &'a mut dyn FnMut(&str) -> ControlFlow<()>,
    /// Whether the caller wants no more.
    closed: bool,
}

impl Output<'_> {
    /// Hands `text` on; breaks if the caller wants no more.
    fn emit(&mut self, text: &str) -> ControlFlow<Finish> {
        if text.is_empty() || self.closed {
            return ControlFlow::Continue(());
        }
        self.text.push_str(text);
        let answer = (self.on_text)(text);
        self.closed = answer.is_break();
        answer.map_break(|()| Finish::Cancelled)
    }

    fn pass(&mut self, text: Option<String>) -> ControlFlow<Finish> {
        let Some(text) = text else { return ControlFlow::Continue(()) };
        match self.stop.push(&text) {
            Passed::Text(text) => self.emit(&text),
            Passed::Stopped(before) => {
                self.stream = None;
                self.emit(&before)?;
                ControlFlow::Break(Finish::Stop)
            }
        }
    }

    fn push(&mut self, id: u32) -> ControlFlow<Finish> {
        let text = self.stream.as_mut().and_then(|stream| stream.push(id));
        self.pass(text)
    }

    /// Hands on what was held back for a character or stop string that did not come to be.
    fn finish(&mut self) -> ControlFlow<Finish> {
        let text = self.stream.as_mut().and_then(TextStream::finish);
        self.pass(text)?;
        let held = self.stop.finish();
        self.emit(&held)
    }
}

/// How the next token is chosen: on the device where the highest logit wins, else on the host.
enum Chooser {
    Highest,
    Drawn(Box<Sampler>),
}

impl Chooser {
    fn new(settings: &Settings) -> Result<Chooser, decoder::Error> {
        let greedy = settings.temperature == 0.0 && settings.repetition_penalty == 1.0;
        Ok(match greedy {
            true => Chooser::Highest,
            false => Chooser::Drawn(Box::new(Sampler::new(*settings)?)),
        })
    }

    /// The token after those in the model's cache.
    fn next(&mut self, model: &Model) -> Result<u32, decoder::Error> {
        match self {
            Chooser::Highest => model.choice(),
            Chooser::Drawn(sampler) => Ok(sampler.sample(&mut model.logits()?, model.cached())?),
        }
    }
}

/// Continues `request.prompt` on `model`, calling `on_text` with each piece of whole characters.
/// Ends early, with what there is, once `cancelled` is set or `on_text` breaks. Without a tokenizer
/// there are only ids.
///
/// # Errors
/// If the prompt is empty, has an id outside of the vocabulary, or leaves no room for `max_tokens`; if
/// the context fills up where there is no such limit; if stop strings come without a tokenizer, a
/// sampling setting makes no sense, or the logits do not.
pub fn generate(
    model: &mut Model,
    tokenizer: Option<&Tokenizer>,
    request: &Request,
    cancelled: &AtomicBool,
    on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
) -> Result<Generation, decoder::Error> {
    request.check(model.config(), model.options().context, tokenizer.is_some())?;
    let mut run = Run {
        model,
        request,
        cancelled,
        chooser: Chooser::new(&request.sampling)?,
        output: Output {
            stream: tokenizer.map(Tokenizer::stream),
            stop: StopStrings::new(&request.stop),
            text: String::new(),
            on_text,
            closed: false,
        },
        ids: Vec::new(),
        times: Times::default(),
        logits: request.every_logit.then(Vec::new),
    };
    let start = Instant::now();
    let mut finish = match run.prefill()? {
        ControlFlow::Break(finish) => finish,
        ControlFlow::Continue(()) => run.decode(start)?,
    };
    if let ControlFlow::Break(other) = run.output.finish() {
        finish = other;
    }
    let Run { output, ids, times, logits, .. } = run;
    let text = tokenizer.map(|_| output.text);
    Ok(Generation { ids, text, finish, times, logits })
}

/// A generation under way.
struct Run<'a> {
    model: &'a mut Model,
    request: &'a Request,
    cancelled: &'a AtomicBool,
    chooser: Chooser,
    output: Output<'a>,
    ids: Vec<u32>,
    times: Times,
    logits: Option<Vec<Vec<f32>>>,
}

impl Run<'_> {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Reads the prompt, chunk by chunk. The last token is read in any case: its logits are wanted.
    fn prefill(&mut self) -> Result<ControlFlow<Finish>, decoder::Error> {
        let prompt = &self.request.prompt;
        let same = match self.logits {
            Some(_) => 0,
            None => self.model.cached().iter().zip(prompt).take_while(|(a, b)| a == b).count(),
        };
        let reused = same.min(prompt.len() - 1);
        self.model.keep(reused);
        let rest = &prompt[reused..];
        self.times.reused_tokens = reused;
        let start = Instant::now();
        self.model.ready_for(rest.len(), self.logits.is_some())?;
        self.times.record = start.elapsed();
        let start = Instant::now();
        let mut chunks = rest.chunks(self.model.options().chunk).peekable();
        while let Some(chunk) = chunks.next() {
            if self.is_cancelled() {
                return Ok(ControlFlow::Break(Finish::Cancelled));
            }
            let wanted = match (&self.logits, chunks.peek()) {
                (Some(_), _) => Logits::All,
                (None, Some(_)) => Logits::None,
                (None, None) => Logits::Last,
            };
            self.model.extend(chunk, wanted)?;
            if let Some(logits) = &mut self.logits {
                logits.extend(self.model.logits_of_chunk(chunk.len())?);
            }
            self.times.prefill_tokens += chunk.len();
            self.times.prefill = start.elapsed();
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Generates token after token, until something ends it.
    fn decode(&mut self, start: Instant) -> Result<Finish, decoder::Error> {
        let most = self.request.max_tokens.unwrap_or(usize::MAX);
        let mut first = None;
        while self.ids.len() < most {
            if self.is_cancelled() {
                return Ok(Finish::Cancelled);
            }
            if let Some(&id) = self.ids.last() {
                self.step(id)?;
            }
            let id = self.chooser.next(self.model)?;
            self.ids.push(id);
            match first {
                None => {
                    first = Some(Instant::now());
                    self.times.first_token = Some(start.elapsed() - self.times.record);
                }
                Some(first) => {
                    self.times.decode_tokens += 1;
                    self.times.decode = first.elapsed();
                }
            }
            if !self.request.ignore_end && self.model.config().end_ids.contains(&id) {
                return Ok(Finish::Stop);
            }
            if let ControlFlow::Break(finish) = self.output.push(id) {
                return Ok(finish);
            }
        }
        Ok(Finish::Length)
    }

    fn step(&mut self, id: u32) -> Result<(), decoder::Error> {
        let context = self.model.options().context;
        if self.model.cached().len() >= context {
            let (prompt, generated) = (self.request.prompt.len(), self.ids.len());
            return Err(decoder::Error::Full { prompt, generated, context });
        }
        self.model.extend(&[id], Logits::Last)
    }
}
