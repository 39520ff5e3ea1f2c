//! A character that occurs in no text of a conversation, put into what spells control tokens.

use std::collections::BTreeSet;

/// The mark, and the tokens to break.
pub(super) struct Marks<'a> {
    mark: char,
    tokens: &'a [&'a str],
}

impl<'a> Marks<'a> {
    /// A mark that is in none of `texts`; `None` if they use every private character.
    pub(super) fn new<'t>(
        texts: impl Iterator<Item = &'t str>,
        tokens: &'a [&'a str],
    ) -> Option<Marks<'a>> {
        const PRIVATE: std::ops::RangeInclusive<char> = '\u{100000}'..='\u{10FFFD}';
        let used: BTreeSet<char> =
            texts.flat_map(str::chars).filter(|c| PRIVATE.contains(c)).collect();
        let mark = PRIVATE.into_iter().find(|c| !used.contains(c))?;
        Some(Marks { mark, tokens })
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = &'a str> {
        self.tokens.iter().copied()
    }

    /// `text` without marks.
    pub(super) fn strip(&self, text: &str) -> String {
        text.replace(self.mark, "")
    }

    /// A token in `text` that has no inside to put a mark into.
    pub(super) fn unbreakable(&self, text: &str) -> Option<&'a str> {
        self.tokens().find(|token| token.chars().count() == 1 && text.contains(token))
    }

    /// `text` with a mark inside every control token but `open` ones, and inside what at its ends,
    /// white space aside, could become one with text that a template puts beside it. The mark never
    /// stands at an end, so templates that trim do what they do without it.
    pub(super) fn cut(&self, text: &str, open: &[&str]) -> String {
        let mut places = BTreeSet::new();
        let trimmed = text.trim();
        let start = text.len() - text.trim_start().len();
        let end = start + trimmed.len();
        for token in self.tokens().filter(|token| !open.contains(token)) {
            places.extend(occurrences(text, token).map(|at| at + first_char(token)));
            for (at, _) in token.char_indices().skip(1) {
                let (head, tail) = token.split_at(at);
                // One character of a token is too little to break: the template would have to write
                // all the others.
                if head.chars().nth(1).is_some() && trimmed.ends_with(head) {
                    places.insert(end - head.len() + first_char(head));
                }
                if tail.chars().nth(1).is_some() && trimmed.starts_with(tail) {
                    places.insert(start + first_char(tail));
                }
            }
        }
        if places.is_empty() {
            return text.to_owned();
        }
        let mut cut = String::with_capacity(text.len() + places.len() * self.mark.len_utf8());
        let mut done = 0;
        for place in places {
            cut.push_str(&text[done..place]);
            cut.push(self.mark);
            done = place;
        }
        cut.push_str(&text[done..]);
        cut
    }

    /// `text` with a mark before and behind each of `tokens`.
    pub(super) fn flank(&self, text: &str, tokens: &[&str]) -> String {
        let flank = |text: String, token: &&str| text.replace(token, &self.flanked(token));
        tokens.iter().fold(text.to_owned(), flank)
    }

    /// Whether `text` holds `token` as [`Marks::flank`] leaves it.
    pub(super) fn is_flanked(&self, text: &str, token: &str) -> bool {
        text.contains(&self.flanked(token))
    }

    fn flanked(&self, token: &str) -> String {
        format!("{0}{token}{0}", self.mark)
    }
}

/// Where `token` begins in `text`, overlapping ones too.
fn occurrences<'t>(text: &'t str, token: &'t str) -> impl Iterator<Item = usize> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(token)?;
        from = at + first_char(token).max(1);
        Some(at)
    })
}

/// Bytes of the first character.
fn first_char(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}
