//! `metile chat`.

use crate::interrupt::Interrupt;
use crate::model::Opened;
use crate::options::{ModelOptions, SamplingOptions, at_least_one};
use crate::report;
use clap::Args;
use metile_models::chat_template::ChatTemplate;
use metile_models::conversation::Conversation;
use metile_models::generate::Request;
use metile_models::tokenizer::Tokenizer;
use std::io::{self, BufRead, IsTerminal, Write};
use std::ops::ControlFlow;

/// The room of a conversation, unless `--context` or the model says less.
const ROOM: usize = 4096;

/// Talk with a model: a line from stdin is a turn. What was read before is not read again. Ctrl-C
/// ends an answer, and at the prompt the program.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// What the model is told before the first turn
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The most tokens of an answer; else as many as come
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max_tokens: Option<usize>,
    /// End an answer before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Print times, rates and memory of each answer on stderr
    #[arg(long)]
    stats: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let opened = Opened::open(&arguments.model)?;
    let tokenizer = Tokenizer::from_checkpoint(&opened.checkpoint)?;
    let template = ChatTemplate::from_checkpoint(&opened.checkpoint)?;
    let interrupt = Interrupt::install()?;
    let mut loaded = opened.load(opened.room(ROOM))?;
    let request = Request {
        max_tokens: arguments.max_tokens,
        sampling: arguments.sampling.settings(),
        stop: arguments.stop.clone(),
        ..Request::default()
    };
    let mut conversation = Conversation::new(&tokenizer, &template, arguments.system.as_deref());
    let mut lines = io::stdin().lock().lines();
    loop {
        if io::stdin().is_terminal() {
            let mut out = io::stdout().lock();
            write!(out, "> ")?;
            out.flush()?;
        }
        let Some(line) = lines.next() else { return Ok(()) };
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let mut failure = None;
        let mut print = |text: &str| {
            let mut out = io::stdout().lock();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let model = &mut loaded.model;
        let answer = interrupt
            .during(|cancelled| conversation.say(model, &line, &request, cancelled, &mut print));
        if let Some(error) = failure {
            return Err(error.into());
        }
        writeln!(io::stdout().lock())?;
        let made = answer?;
        if arguments.stats {
            report::stats(&made, &loaded);
        }
    }
}
