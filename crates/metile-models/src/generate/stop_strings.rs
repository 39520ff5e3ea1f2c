//! Stop strings: text is held back while it may turn out to be the beginning of one.

/// What a piece of text led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Passed {
    /// Text that can be printed; empty if all of it is held back.
    Text(String),
    /// A stop string was met; the text before it.
    Stopped(String),
}

/// Watches a text that comes in pieces for stop strings.
#[derive(Debug, Default)]
pub struct StopStrings {
    strings: Vec<String>,
    held: String,
}

impl StopStrings {
    /// Watches for `strings`; empty ones are ignored, as they would stop before anything is said.
    pub fn new(strings: &[String]) -> StopStrings {
        let strings = strings.iter().filter(|s| !s.is_empty()).cloned().collect();
        StopStrings { strings, held: String::new() }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Passed {
        self.held.push_str(text);
        let first = self.strings.iter().filter_map(|s| self.held.find(s.as_str())).min();
        if let Some(at) = first {
            let mut before = std::mem::take(&mut self.held);
            before.truncate(at);
            return Passed::Stopped(before);
        }
        let keep = self.strings.iter().map(|s| self.beginning_of(s)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Passed::Text(std::mem::replace(&mut self.held, rest))
    }

    /// What is still held back, once no more text comes.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes of the longest end of the held text that `string` begins with.
    fn beginning_of(&self, string: &str) -> usize {
        let longest = self.held.len().min(string.len() - 1);
        (1..=longest)
            .rev()
            .find(|&n| string.is_char_boundary(n) && self.held.ends_with(&string[..n]))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        let mut watch = StopStrings::new(&stops);
        let mut out = String::new();
        for piece in pieces {
            match watch.push(piece) {
                Passed::Text(text) => out.push_str(&text),
                Passed::Stopped(text) => return (out + &text, true),
            }
        }
        (out + &watch.finish(), false)
    }

    #[test]
    fn a_stop_string_may_span_pieces() {
        assert_eq!(run(&["END"], &["a E", "N", "D b"]), ("a ".to_owned(), true));
        assert_eq!(run(&["END"], &["a E", "N", "d b"]), ("a ENd b".to_owned(), false));
        assert_eq!(run(&["END"], &["a EN"]), ("a EN".to_owned(), false));
    }

    #[test]
    fn the_earliest_wins_and_empty_ones_are_ignored() {
        assert_eq!(run(&["c", "b"], &["abc"]), ("a".to_owned(), true));
        assert_eq!(run(&[""], &["abc"]), ("abc".to_owned(), false));
        assert_eq!(run(&["aab"], &["aa", "ab"]), ("a".to_owned(), true));
        assert_eq!(run(&["éa"], &["xé", "a"]), ("x".to_owned(), true));
    }

    #[test]
    fn what_cannot_begin_a_stop_is_passed_on_at_once() {
        let mut watch = StopStrings::new(&["\n\n".to_owned()]);
        assert_eq!(watch.push("one\n"), Passed::Text("one".to_owned()));
        assert_eq!(watch.push("two"), Passed::Text("\ntwo".to_owned()));
        assert_eq!(watch.push("\n\nthree"), Passed::Stopped(String::new()));
    }
}
