//! A conversation: turns of a chat, each answered on top of what the model has read already.

use crate::chat_template::{ChatTemplate, Message};
use crate::decoder::{self, Model};
use crate::generate::{Generation, Request, generate};
use crate::tokenizer::Tokenizer;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

/// The messages so far. The model's cache keeps what was read of them; of a new prompt only what
/// differs from it is read.
#[derive(Debug)]
pub struct Conversation<'a> {
    tokenizer: &'a Tokenizer,
    template: &'a ChatTemplate,
    messages: Vec<Message>,
}

impl<'a> Conversation<'a> {
    /// A conversation without messages, or with a system message.
    pub fn new(
        tokenizer: &'a Tokenizer,
        template: &'a ChatTemplate,
        system: Option<&str>,
    ) -> Conversation<'a> {
        let system = system.map(|text| Message::new("system", text));
        Conversation { tokenizer, template, messages: system.into_iter().collect() }
    }

    /// The messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Says `text` as the user and generates the answer, as `request` describes apart from its prompt.
    /// Both become part of the conversation, a cancelled answer as far as it came; if it fails, neither.
    ///
    /// # Errors
    /// If the template refuses the messages, or as [`generate`] does.
    pub fn say(
        &mut self,
        model: &mut Model,
        text: &str,
        request: &Request,
        cancelled: &AtomicBool,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, decoder::Error> {
        self.messages.push(Message::new("user", text));
        let answer = self.answer(model, request, cancelled, on_text);
        match &answer {
            Ok(made) => {
                let text = made.text.as_deref().unwrap_or_default();
                self.messages.push(Message::new("assistant", text));
            }
            Err(_) => {
                self.messages.pop();
            }
        }
        answer
    }

    fn answer(
        &self,
        model: &mut Model,
        request: &Request,
        cancelled: &AtomicBool,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, decoder::Error> {
        let prompt = self.template.render_ids(self.tokenizer, &self.messages, true)?;
        let request = Request { prompt, ..request.clone() };
        generate(model, Some(self.tokenizer), &request, cancelled, on_text)
    }
}
