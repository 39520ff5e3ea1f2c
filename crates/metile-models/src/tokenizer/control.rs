//! Where control tokens stand in a text.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind};

/// A token that is recognized in a text before anything else is.
#[derive(Clone, Debug)]
pub(super) struct Added {
    pub(super) text: String,
    pub(super) id: u32,
    /// Takes the white space before it.
    pub(super) strip_before: bool,
    /// Takes the white space behind it.
    pub(super) strip_after: bool,
    /// Not recognized within a word.
    pub(super) single_word: bool,
    /// Only white space, and not special: a part of ordinary text.
    pub(super) ordinary: bool,
}

impl Added {
    pub(super) fn new(text: &str, id: u32) -> Added {
        let text = text.to_owned();
        let (strip_before, strip_after, single_word, ordinary) = (false, false, false, false);
        Added { text, id, strip_before, strip_after, single_word, ordinary }
    }
}

/// A part of a text.
pub(super) enum Piece<'t> {
    Text(&'t str),
    Control(u32),
}

/// The tokens to recognize.
pub(super) struct Control {
    all: Matcher,
    ordinary: Matcher,
    ids: HashMap<String, u32>,
    control_ids: std::collections::HashSet<u32>,
}

struct Matcher {
    tokens: Vec<Added>,
    automaton: Option<AhoCorasick>,
}

impl Control {
    pub(super) fn new(tokens: Vec<Added>) -> Result<Control, String> {
        let ids = tokens.iter().map(|token| (token.text.clone(), token.id)).collect();
        let control_ids = tokens.iter().filter(|t| !t.ordinary).map(|t| t.id).collect();
        let ordinary = tokens.iter().filter(|token| token.ordinary).cloned().collect();
        Ok(Control {
            all: Matcher::new(tokens)?,
            ordinary: Matcher::new(ordinary)?,
            ids,
            control_ids,
        })
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// Every token's spelling and id, ordinary ones included.
    pub(super) fn ids(&self) -> impl Iterator<Item = (&str, u32)> {
        self.ids.iter().map(|(text, &id)| (text.as_str(), id))
    }

    pub(super) fn is_control(&self, id: u32) -> bool {
        self.control_ids.contains(&id)
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.all.tokens.iter().filter(|token| !token.ordinary).map(|token| token.text.as_str())
    }

    pub(super) fn split_all<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        self.all.split(text)
    }

    pub(super) fn split_plain<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        self.ordinary.split(text)
    }
}

impl Matcher {
    fn new(tokens: Vec<Added>) -> Result<Matcher, String> {
        if tokens.is_empty() {
            return Ok(Matcher { tokens, automaton: None });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|token| token.text.as_bytes()))
            .map_err(|error| format!("its {} control tokens: {error}", tokens.len()))?;
        Ok(Matcher { tokens, automaton: Some(automaton) })
    }

    fn split<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        let Some(automaton) = &self.automaton else { return vec![Piece::Text(text)] };
        let mut pieces = Vec::new();
        let mut done = 0;
        for found in automaton.find_iter(text) {
            let token = &self.tokens[found.pattern().as_usize()];
            let (before, after) = (&text[..found.start()], &text[found.end()..]);
            if found.start() < done || token.single_word && within_word(before, after) {
                continue;
            }
            let mut between = &text[done..found.start()];
            if token.strip_before {
                between = between.trim_end();
            }
            if !between.is_empty() {
                pieces.push(Piece::Text(between));
            }
            pieces.push(Piece::Control(token.id));
            done = found.end();
            if token.strip_after {
                done += after.len() - after.trim_start().len();
            }
        }
        if done < text.len() {
            pieces.push(Piece::Text(&text[done..]));
        }
        pieces
    }
}

fn within_word(before: &str, after: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    before.chars().next_back().is_some_and(word) || after.chars().next().is_some_and(word)
}
