//! From a prompt's ids to text: the loop around the decoder.

mod stop_strings;

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
}

impl Output<'_> {
    /// Hands `text` on; breaks if the caller wants no more.
    fn emit(&mut self, text: &str) -> ControlFlow<Finish> {
        if text.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text.push_str(text);
        (self.on_text)(text).map_break(|()| Finish::Cancelled)
    }

    fn pass(&mut self, text: Option<String>) -> ControlFlow<Finish> {
        let Some(text) = text else { return ControlFlow::Continue(()) };
        match self.stop.push(&text) {
            Passed::Text(text) => self.emit(&text),
            Passed::Stopped(before) => {
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
    check(model, tokenizer, request)?;
    let mut chooser = Chooser::new(&request.sampling)?;
    let mut output = Output {
        stream: tokenizer.map(Tokenizer::stream),
        stop: StopStrings::new(&request.stop),
        text: String::new(),
        on_text,
    };
    let mut made = Generation {
        ids: Vec::new(),
        text: None,
        finish: Finish::Length,
        times: Times::default(),
        logits: request.every_logit.then(Vec::new),
    };
    let finish = match prefill(model, request, cancelled, &mut made)? {
        ControlFlow::Break(finish) => finish,
        ControlFlow::Continue(start) => {
            decode(model, request, cancelled, &mut chooser, &mut output, &mut made, start)?
        }
    };
    made.finish = finish;
    // A stop string cut the text; anything else lets out what was held back.
    if finish != Finish::Stop || !output.stop.is_met() {
        if let ControlFlow::Break(finish) = output.finish() {
            made.finish = finish;
        }
    }
    made.text = tokenizer.map(|_| output.text);
    Ok(made)
}
