//! A conversation as the prompt that the model was trained on.
//!
//! The checkpoint's template is run as it is. Text of messages never becomes a control token: what in
//! them spells one is broken by a mark that occurs nowhere else, the template runs, control tokens are
//! found in its output, and the marks are taken out of the rest.

mod clock;
mod marks;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

use crate::Error;
use crate::checkpoint::gguf::Header;
use crate::checkpoint::{Checkpoint, Source};
use crate::json::{Keys, read_bytes};
use crate::tokenizer::{Tokenizer, hugging_face::CONFIG_FILE};
use marks::Marks;

const FILE: &str = "chat_template.jinja";
const GGUF_KEY: &str = "tokenizer.chat_template";
/// The most bytes of a template.
const LIMIT: u64 = 4 << 20;
/// Instructions that a template may take, and as many more for each message. One message takes some
/// hundred.
const FUEL: u64 = 500_000;
const MESSAGE_FUEL: u64 = 2_000;
const ASSISTANT: &str = "assistant";

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`, and what else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A turn of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    fn value(&self) -> Value {
        Value::from_pairs([("role", self.role.as_str()), ("content", self.content.as_str())])
    }
}

/// A checkpoint's chat template.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    source: String,
    begin_text: Option<String>,
    end_text: Option<String>,
    time: Option<SystemTime>,
    control_in_contents: bool,
}

impl ChatTemplate {
    /// The template that the checkpoint holds: `chat_template.jinja` or `tokenizer_config.json` of a
    /// folder, `tokenizer.chat_template` of a GGUF file.
    ///
    /// # Errors
    /// If there is none, or it does not parse.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<ChatTemplate, Error> {
        let template = match checkpoint.source() {
            Source::Gguf(header) => from_gguf(header)?,
            Source::HuggingFace(folder) => from_folder(folder)?,
        };
        template.environment(0)?;
        Ok(template)
    }

    /// The template with `time` as what `strftime_now` tells, in UTC, instead of the system's clock.
    pub fn with_time(self, time: SystemTime) -> ChatTemplate {
        ChatTemplate { time: Some(time), ..self }
    }

    /// Whether text of messages that spells a control token becomes it. Off unless set here: whoever
    /// may write a message could otherwise end its turn and begin another's.
    pub fn with_control_in_contents(self, allowed: bool) -> ChatTemplate {
        ChatTemplate { control_in_contents: allowed, ..self }
    }

    /// The template's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt as text, to be shown. Its ids are those of [`ChatTemplate::render_ids`], not of this
    /// text: it does not say what is a control token and what was typed.
    ///
    /// # Errors
    /// If the template fails, or refuses the messages.
    pub fn render(&self, messages: &[Message], generation_prompt: bool) -> Result<String, Error> {
        self.run(&self.environment(messages.len())?, messages, generation_prompt)
    }

    /// The prompt's ids, as Transformers' `apply_chat_template` makes them: a token that begins texts
    /// is there if the template writes it. With `generation_prompt` the prompt ends where the
    /// assistant's next turn begins.
    ///
    /// # Errors
    /// If the template fails or refuses the messages, or passes text of a message on in a way that
    /// cannot be told from its own control tokens.
    pub fn render_ids(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        generation_prompt: bool,
    ) -> Result<Vec<u32>, Error> {
        let environment = self.environment(messages.len())?;
        let run = |messages: &[Message]| self.run(&environment, messages, generation_prompt);
        let mut ids = Vec::new();
        if self.control_in_contents {
            tokenizer.encode_control(&run(messages)?, str::to_owned, &mut ids)?;
            return Ok(ids);
        }
        let tokens: Vec<&str> = tokenizer.control_texts().collect();
        let own = [Some(&self.source), self.begin_text.as_ref(), self.end_text.as_ref()];
        let texts = messages.iter().flat_map(|m| [&m.role, &m.content]);
        let texts = texts.chain(own.into_iter().flatten()).map(String::as_str);
        let marks = Marks::new(texts.chain(tokens.iter().copied()), &tokens);
        let marks = marks.ok_or_else(|| {
            self.fail("the texts use every private character, so none can mark their parts")
        })?;
        let rendered = self.render_marked(&marks, messages, run)?;
        tokenizer.encode_control(&rendered, |text| marks.strip(text), &mut ids)?;
        Ok(ids)
    }

    /// The prompt, with marks in whatever the messages hold of control tokens.
    fn render_marked(
        &self,
        marks: &Marks<'_>,
        messages: &[Message],
        run: impl Fn(&[Message]) -> Result<String, Error>,
    ) -> Result<String, Error> {
        if let Some(text) = messages.iter().find_map(|m| marks.unbreakable(&m.content)) {
            let problem = format!(
                "a message holds the control token `{text}`, which is one character and \
                 cannot be told from text"
            );
            return Err(self.fail(problem));
        }
        // Roles are always broken; of contents those of assistants are left open for `open` tokens.
        let marked = |open: &[&str]| -> Vec<Message> {
            let one = |message: &Message| {
                let open = if message.role == ASSISTANT { open } else { &[] };
                Message::new(marks.cut(&message.role, &[]), marks.cut(&message.content, open))
            };
            messages.iter().map(one).collect()
        };
        let cut = marked(&[]);
        let safe = run(&cut)?;
        if cut == messages {
            return Ok(safe);
        }
        // Some templates look into an assistant's turn, to drop its thoughts between `<think>` and
        // `</think>`. What they look for stays readable there; all else is broken as before.
        let assistants = messages.iter().filter(|message| message.role == ASSISTANT);
        let mut open: Vec<&str> = marks
            .tokens()
            .filter(|token| assistants.clone().any(|message| message.content.contains(token)))
            .collect();
        let meant = marks.strip(&run(&marked(&open))?);
        if marks.strip(&safe) == meant {
            return Ok(safe);
        }
        for token in open.clone() {
            let fewer: Vec<&str> = open.iter().copied().filter(|&other| other != token).collect();
            if marks.strip(&run(&marked(&fewer))?) == meant {
                open = fewer;
            }
        }
        let rendered = run(&marked(&open))?;
        // What was left readable must not come through to the prompt.
        let flanked = |message: &Message| {
            let content = marks.cut(&message.content, &open);
            let flank = message.role == ASSISTANT;
            let content =
                if flank { marks.flank(&content, &open) } else { marks.cut(&message.content, &[]) };
            Message::new(marks.cut(&message.role, &[]), content)
        };
        let probe = run(&messages.iter().map(flanked).collect::<Vec<_>>())?;
        match open.iter().find(|token| marks.is_flanked(&probe, token)) {
            None => Ok(rendered),
            Some(token) => Err(self.fail(format!(
                "it passes `{token}` of an assistant's message on, where it would become a control token"
            ))),
        }
    }

    /// What the template runs in, with fuel for this many messages.
    fn environment(&self, messages: usize) -> Result<Environment<'_>, Error> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(FUEL + MESSAGE_FUEL.saturating_mul(messages as u64)));
        // As Transformers sets its template engine up.
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|error| self.fail(error.to_string()))?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| {
            Err::<Value, _>(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        });
        let time = self.time;
        environment.add_function("strftime_now", move |format: String| {
            let time = time.unwrap_or_else(SystemTime::now);
            clock::format(time, &format)
                .map_err(|problem| minijinja::Error::new(ErrorKind::InvalidOperation, problem))
        });
        environment
            .add_template("chat_template", &self.source)
            .map_err(|error| self.fail(error.to_string()))?;
        Ok(environment)
    }

    fn run(
        &self,
        environment: &Environment<'_>,
        messages: &[Message],
        generation_prompt: bool,
    ) -> Result<String, Error> {
        let mut variables = vec![
            ("messages", messages.iter().map(Message::value).collect()),
            ("add_generation_prompt", Value::from(generation_prompt)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ];
        let tokens = [("bos_token", &self.begin_text), ("eos_token", &self.end_text)];
        for (name, text) in tokens {
            variables.extend(text.as_ref().map(|text| (name, Value::from(text.as_str()))));
        }
        let variables = Value::from_pairs(variables);
        let template = environment.get_template("chat_template");
        let rendered = template.and_then(|template| template.render(variables));
        rendered.map_err(|error| self.fail(error.to_string()))
    }

    fn fail(&self, problem: impl Into<String>) -> Error {
        Error::ChatTemplate { path: self.path.clone(), problem: problem.into() }
    }
}

fn template(path: &Path, source: String) -> ChatTemplate {
    ChatTemplate {
        path: path.to_path_buf(),
        source,
        begin_text: None,
        end_text: None,
        time: None,
        control_in_contents: false,
    }
}

fn from_gguf(header: &Header) -> Result<ChatTemplate, Error> {
    let Some(source) = header.text(GGUF_KEY)? else {
        let problem = format!("the file has none: `{GGUF_KEY}` is missing");
        return Err(Error::ChatTemplate { path: header.path().to_path_buf(), problem });
    };
    let tokens = header.texts("tokenizer.ggml.tokens")?;
    let text = |key: &str| -> Result<Option<String>, Error> {
        let id = header.count(key)?;
        Ok(id.and_then(|id| tokens?.get(id)).map(str::to_owned))
    };
    Ok(ChatTemplate {
        begin_text: text("tokenizer.ggml.bos_token_id")?,
        end_text: text("tokenizer.ggml.eos_token_id")?,
        ..template(header.path(), source.to_owned())
    })
}

fn from_folder(folder: &Path) -> Result<ChatTemplate, Error> {
    let config = Keys::read_if_present(&folder.join(CONFIG_FILE))?;
    let path = folder.join(FILE);
    let mut template = if path.exists() {
        let source = String::from_utf8(read_bytes(&path, LIMIT)?).map_err(|_| {
            Error::ChatTemplate { path: path.clone(), problem: "it is not UTF-8".to_owned() }
        })?;
        template(&path, source)
    } else {
        match &config {
            Some(keys) => match source_in_config(keys)? {
                Some(source) => template(keys.path(), source),
                None => return Err(none_in(folder)),
            },
            None => return Err(none_in(folder)),
        }
    };
    if let Some(keys) = &config {
        template.begin_text = keys.token("bos_token")?.map(str::to_owned);
        template.end_text = keys.token("eos_token")?.map(str::to_owned);
    }
    Ok(template)
}

fn none_in(folder: &Path) -> Error {
    let problem = format!("there is neither {FILE} nor `chat_template` in {CONFIG_FILE}");
    Error::ChatTemplate { path: folder.to_path_buf(), problem }
}

/// `chat_template` is the source, or a list of named ones, of which `default` is taken.
fn source_in_config(keys: &Keys) -> Result<Option<String>, Error> {
    use serde_json::Value;
    const KEY: &str = "chat_template";
    match keys.get(KEY) {
        None => Ok(None),
        Some(Value::String(source)) => Ok(Some(source.clone())),
        Some(Value::Array(list)) => {
            let default =
                list.iter().find(|one| one.get("name").and_then(Value::as_str) == Some("default"));
            let source = default.and_then(|one| one.get("template")).and_then(Value::as_str);
            let none = || keys.fail(KEY, "of several templates none is named `default`");
            source.map(|source| Some(source.to_owned())).ok_or_else(none)
        }
        Some(_) => Err(keys.fail(KEY, "it is neither a text nor a list of templates")),
    }
}

#[cfg(test)]
mod tests;
