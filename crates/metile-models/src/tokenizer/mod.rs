//! Text to token ids and back, as the checkpoint's own tokenizer does it.
//!
//! Control tokens (`<|im_start|>` and the like) are kept apart from text: text that happens to spell
//! one is encoded as the letters it is made of, unless a caller asks for the other.

mod control;
mod gguf;
pub(crate) mod hugging_face;
mod pieces;
mod pre_tokenizer;
mod sentencepiece;
mod stream;
mod write;

use std::path::PathBuf;

use crate::Error;
use crate::checkpoint::gguf::Header;
use crate::checkpoint::{Checkpoint, Source};
use control::{Control, Piece};
use pieces::Pieces;
pub use stream::TextStream;

/// A checkpoint's tokenizer.
pub struct Tokenizer {
    path: PathBuf,
    /// Knows no control token, so no text becomes one.
    plain: tokenizers::Tokenizer,
    control: Control,
    pieces: Pieces,
    /// The token that every prompt begins with.
    begin: Option<u32>,
    notes: Vec<String>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, tokens) = (&self.path, self.pieces.len());
        f.debug_struct("Tokenizer").field("path", path).field("tokens", &tokens).finish()
    }
}

impl Tokenizer {
    /// The tokenizer that the checkpoint holds: `tokenizer.json` of a folder, or the vocabulary in a
    /// GGUF file.
    ///
    /// # Errors
    /// If there is none, or it is of a kind that is not supported.
    pub fn from_checkpoint(checkpoint: &Checkpoint) -> Result<Tokenizer, Error> {
        let config = checkpoint.config();
        let mut tokenizer = match checkpoint.source() {
            Source::Gguf(header) => Tokenizer::from_gguf(header)?,
            Source::HuggingFace(folder) => hugging_face::read(folder, config.vocabulary)?,
        };
        tokenizer.begin = config.begin_id.filter(|_| config.add_begin);
        Ok(tokenizer)
    }

    /// The tokenizer in a GGUF file's metadata. It puts no token before texts.
    ///
    /// # Errors
    /// If there is none, or it is of a kind that is not supported.
    pub fn from_gguf(header: &Header) -> Result<Tokenizer, Error> {
        gguf::read(header)
    }

    /// The ids of `text`, after the token that begins texts where the checkpoint says that prompts have
    /// one. No part of `text` becomes a control token.
    ///
    /// # Errors
    /// If the text has a character that the vocabulary cannot express.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids: Vec<u32> = self.begin.into_iter().collect();
        self.encode_text(text, &mut ids)?;
        Ok(ids)
    }

    /// As [`Tokenizer::encode`], but what spells a control token becomes it. For text of one's own,
    /// never for text that somebody typed.
    ///
    /// # Errors
    /// As of [`Tokenizer::encode`].
    pub fn encode_with_control(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids: Vec<u32> = self.begin.into_iter().collect();
        self.encode_control(text, |piece| piece.to_owned(), &mut ids)?;
        Ok(ids)
    }

    /// Appends the ids of `text`, which has no control tokens.
    fn encode_text(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        for piece in self.control.split_plain(text) {
            self.encode_piece(piece, |piece| piece.to_owned(), ids)?;
        }
        Ok(())
    }

    /// Appends the ids of `text` with its control tokens; `clean` is applied to what lies between them.
    pub(crate) fn encode_control(
        &self,
        text: &str,
        clean: impl Fn(&str) -> String + Copy,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        for piece in self.control.split_all(text) {
            match piece {
                Piece::Control(id) => ids.push(id),
                Piece::Text(text) => self.encode_text(&clean(text), ids)?,
            }
        }
        Ok(())
    }

    fn encode_piece(
        &self,
        piece: Piece<'_>,
        clean: impl Fn(&str) -> String,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        match piece {
            Piece::Control(id) => ids.push(id),
            Piece::Text("") => {}
            Piece::Text(text) => {
                let encoding = self.plain.encode_fast(clean(text), false);
                ids.extend(encoding.map_err(|e| self.fail(e.to_string()))?.get_ids());
            }
        }
        Ok(())
    }

    /// The text of `ids`, control tokens included as they are spelled. Bytes that are no UTF-8 become
    /// U+FFFD; ids without a token, as the unused rows of an embedding, become nothing.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text: String = ids.iter().filter_map(|&id| stream.push(id)).collect();
        text.extend(stream.finish());
        if self.pieces.drops_first_space() && text.starts_with(' ') {
            text.remove(0);
        }
        text
    }

    /// A decoder that takes one id at a time and never gives out half a character.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(&self.pieces)
    }

    /// The id of the token spelled `text`, control tokens included.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.control.id(text).or_else(|| self.plain.token_to_id(text))
    }

    /// Whether `id` is a control token.
    pub fn is_control(&self, id: u32) -> bool {
        self.control.is_control(id)
    }

    /// Every control token's spelling.
    pub(crate) fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.control.texts()
    }

    /// Things of the checkpoint's tokenizer that are left out, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn fail(&self, problem: impl Into<String>) -> Error {
        Error::Tokenizer { path: self.path.clone(), problem: problem.into() }
    }
}
