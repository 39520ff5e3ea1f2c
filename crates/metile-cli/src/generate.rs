//! `metile generate`.

use crate::interrupt::Interrupt;
use crate::model::{Loaded, Opened};
use crate::options::{ModelOptions, SamplingOptions};
use crate::report;
use anyhow::Context;
use clap::{ArgGroup, Args};
use metile_models::chat_template::{ChatTemplate, Message};
use metile_models::generate::{self, Generation, Request};
use metile_models::tokenizer::Tokenizer;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Continue a prompt: text streams to stdout, everything about it goes to stderr.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").required(true))]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,
    /// Text to continue
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// What a user says, put into the model's chat template
    #[arg(long, value_name = "TEXT", group = "input", allow_hyphen_values = true)]
    chat: Option<String>,
    /// A UTF-8 file with text to continue
    #[arg(long, value_name = "FILE", group = "input")]
    file: Option<PathBuf>,
    /// Token ids to continue, as 1,2,3
    #[arg(long, value_name = "IDS", group = "input", value_delimiter = ',')]
    ids: Option<Vec<u32>>,
    /// The most tokens to generate
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// Take end tokens for tokens like others (for benchmarks)
    #[arg(long)]
    ignore_eos: bool,
    /// Stop before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Print times, rates and memory on stderr
    #[arg(long)]
    stats: bool,
    /// Print one JSON object instead of the text
    #[arg(long)]
    json: bool,
    /// Put the logits of every prompt position into the object
    #[arg(long, requires = "json")]
    logits: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let opened = Opened::open(&arguments.model)?;
    let tokenizer = match Tokenizer::from_checkpoint(&opened.checkpoint) {
        Ok(tokenizer) => Some(tokenizer),
        // Ids need none to be read, and can be printed as they are.
        Err(error) if arguments.ids.is_some() => {
            report::note(format_args!("note: there will be ids but no text: {error}"));
            None
        }
        Err(error) => return Err(error.into()),
    };
    let prompt = prompt(arguments, &opened, tokenizer.as_ref())?;
    let context = opened.room(prompt.len().saturating_add(arguments.max_tokens));
    let request = Request {
        prompt,
        max_tokens: Some(arguments.max_tokens),
        sampling: arguments.sampling.settings(),
        ignore_end: arguments.ignore_eos,
        stop: arguments.stop.clone(),
        every_logit: arguments.logits,
    };
    // What is refused anyway is refused before it takes the time of loading.
    request.check(opened.checkpoint.config(), context, tokenizer.is_some())?;
    let interrupt = Interrupt::install()?;
    let mut loaded = opened.load(context)?;
    let made = stream(&mut loaded, tokenizer.as_ref(), &request, arguments.json, &interrupt)?;
    finish(arguments, &loaded, &request, &made)
}

fn prompt(
    arguments: &Arguments,
    opened: &Opened,
    tokenizer: Option<&Tokenizer>,
) -> anyhow::Result<Vec<u32>> {
    if let Some(ids) = &arguments.ids {
        return Ok(ids.clone());
    }
    let tokenizer = tokenizer.context("text needs a tokenizer")?;
    if let Some(text) = &arguments.chat {
        let template = ChatTemplate::from_checkpoint(&opened.checkpoint)?;
        return Ok(template.render_ids(tokenizer, &[Message::new("user", text)], true)?);
    }
    let text = match (&arguments.prompt, &arguments.file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => std::fs::read_to_string(file)
            .with_context(|| format!("{}: can't be read", file.display()))?,
        (None, None) => String::new(),
    };
    Ok(tokenizer.encode(&text)?)
}

/// Generates, and prints text as it comes unless an object will be printed.
fn stream(
    loaded: &mut Loaded,
    tokenizer: Option<&Tokenizer>,
    request: &Request,
    quiet: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<Generation> {
    let mut failure = None;
    let mut print = |text: &str| {
        if quiet {
            return ControlFlow::Continue(());
        }
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
    let made = interrupt
        .during(|cancelled| generate::generate(model, tokenizer, request, cancelled, &mut print));
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(made?),
    }
}

fn finish(
    arguments: &Arguments,
    loaded: &Loaded,
    request: &Request,
    made: &Generation,
) -> anyhow::Result<()> {
    let model = &loaded.model;
    let (weights, device) = (model.weights_bytes(), model.device().name());
    if arguments.json {
        let object = report::generation_json(&request.prompt, made, weights, device);
        report::print_json(&object)?;
    } else {
        let mut out = io::stdout().lock();
        if made.text.is_none() {
            let ids: Vec<String> = made.ids.iter().map(u32::to_string).collect();
            write!(out, "{}", ids.join(","))?;
        }
        writeln!(out)?;
        out.flush()?;
    }
    if arguments.stats {
        report::stats(made, loaded);
    }
    Ok(())
}
