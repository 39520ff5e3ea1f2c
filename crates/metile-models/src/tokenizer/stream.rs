//! Text from one token after another.

use super::pieces::{Bytes, Pieces};

/// Decodes token ids one by one; a character whose bytes are not all there yet is held back.
#[derive(Clone)]
pub struct TextStream<'a> {
    pieces: &'a Pieces,
    held: Vec<u8>,
}

impl std::fmt::Debug for TextStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextStream").field("held", &self.held).finish_non_exhaustive()
    }
}

impl<'a> TextStream<'a> {
    pub(super) fn new(pieces: &'a Pieces) -> Self {
        TextStream { pieces, held: Vec::new() }
    }

    /// The text that is certain now that `id` came, if there is any. Bytes that can no longer become
    /// UTF-8 are U+FFFD; an id without a token adds nothing.
    pub fn push(&mut self, id: u32) -> Option<String> {
        let mut text = String::new();
        match self.pieces.get(id)? {
            Bytes::Text(bytes) => {
                self.held.extend(bytes);
                self.take_complete(&mut text);
            }
            Bytes::Control(bytes) => {
                text.extend(self.finish());
                text.push_str(&String::from_utf8_lossy(bytes));
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// What is held back at the end of the text: the beginning of a character, as U+FFFD.
    pub fn finish(&mut self) -> Option<String> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then(|| String::from_utf8_lossy(&held).into_owned())
    }

    fn take_complete(&mut self, text: &mut String) {
        let mut done = 0;
        for chunk in self.held.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let invalid = chunk.invalid();
            let at_end = done + invalid.len() == self.held.len();
            if at_end && may_continue(invalid) {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += invalid.len();
            }
        }
        self.held.drain(..done);
    }
}

/// Whether more bytes can make a character of `bytes`.
fn may_continue(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}
