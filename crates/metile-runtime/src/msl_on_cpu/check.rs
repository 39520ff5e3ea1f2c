//! What Metal's language has not, and a C++ compiler would take.

use std::collections::HashMap;
use std::fmt;

/// Something that Metal source can't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// A type or statement, by its word.
    Word(&'static str),
    /// A function that calls itself, or one that is defined later.
    Recursion(String),
    /// A pointer to a function.
    FunctionPointer,
    /// A buffer beyond the last.
    Buffer(u32),
    /// A declared thread maximum of one SIMD group, which Apple's compiler has miscompiled.
    OneSimdGroup,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forbidden::Word(word) => write!(f, "the word `{word}`"),
            Forbidden::Recursion(name) => write!(f, "a recursive function, `{name}`"),
            Forbidden::FunctionPointer => f.write_str("a function pointer"),
            Forbidden::Buffer(n) => write!(f, "a buffer {n}; the last is 30"),
            Forbidden::OneSimdGroup => f.write_str(
                "a declared thread maximum of one SIMD group, which Apple's compiler has miscompiled",
            ),
        }
    }
}

const WORDS: [&str; 8] =
    ["double", "goto", "virtual", "throw", "try", "new", "delete", "dynamic_cast"];

/// Looks for what Metal's language has not. The form of emitted source is assumed: functions are defined
/// before they are called, at most within one namespace.
///
/// # Errors
/// The first finding.
pub fn check(source: &str) -> Result<(), Forbidden> {
    let tokens = tokens(source);
    if let Some(word) = WORDS.into_iter().find(|word| tokens.contains(word)) {
        return Err(Forbidden::Word(word));
    }
    if tokens.windows(4).any(|w| w[0] == "(" && w[1] == "*" && w[3] == ")")
        && tokens.windows(5).any(|w| w[0] == "(" && w[1] == "*" && w[3] == ")" && w[4] == "(")
    {
        return Err(Forbidden::FunctionPointer);
    }
    for w in tokens.windows(4) {
        if w[0] == "buffer" && w[1] == "(" && w[3] == ")" {
            match w[2].parse() {
                Ok(n) if n < 31 => {}
                n => return Err(Forbidden::Buffer(n.unwrap_or(u32::MAX))),
            }
        }
        if w[0] == "max_total_threads_per_threadgroup" && w[2] == "32" {
            return Err(Forbidden::OneSimdGroup);
        }
    }
    calls(&tokens)
}

/// Identifiers and numbers whole, everything else by character; comments and preprocessor lines left out.
fn tokens(source: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for line in source.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let mut rest = line.split("//").next().unwrap_or_default().trim_start();
        while let Some(first) = rest.chars().next() {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match word(first) {
                true => rest.find(|c| !word(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            tokens.push(&rest[..length]);
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// A function may call those that were complete before it began.
fn calls(tokens: &[&str]) -> Result<(), Forbidden> {
    // Overloads are told apart by their first parameter's type.
    let mut depth = 0usize;
    let mut namespaces = 0usize;
    let mut open: Option<&str> = None;
    let mut defined: HashMap<&str, usize> = HashMap::new();
    for (n, &token) in tokens.iter().enumerate() {
        match token {
            "{" => {
                if n >= 2 && tokens[n - 2] == "namespace" {
                    namespaces += 1;
                } else {
                    if depth == 0
                        && let Some(name) = function(tokens, n)
                    {
                        open = Some(name);
                    }
                    depth += 1;
                }
            }
            "}" if depth == 0 => namespaces = namespaces.saturating_sub(1),
            "}" => {
                depth -= 1;
                if depth == 0
                    && let Some(name) = open.take()
                {
                    *defined.entry(name).or_default() += 1;
                }
            }
            name if depth > 0 && Some(name) == open && tokens.get(n + 1) == Some(&"(") => {
                // Metal's own function of that name, in its namespace, is another.
                let qualified = n >= 3 && tokens[n - 1] == ":" && tokens[n - 3] != "metile";
                if !qualified {
                    return Err(Forbidden::Recursion(name.to_owned()));
                }
            }
            "metile" if depth > 0 && tokens.get(n + 1) == Some(&":") => {
                let name = tokens.get(n + 3).copied().unwrap_or_default();
                if !defined.contains_key(name) {
                    return Err(Forbidden::Recursion(name.to_owned()));
                }
            }
            _ => {}
        }
    }
    let _ = namespaces;
    Ok(())
}

/// The name of the function whose body opens at `brace`.
fn function<'s>(tokens: &[&'s str], brace: usize) -> Option<&'s str> {
    if brace == 0 || tokens[brace - 1] != ")" {
        return None;
    }
    let mut depth = 0usize;
    for at in (0..brace).rev() {
        match tokens[at] {
            ")" => depth += 1,
            "(" => {
                depth -= 1;
                if depth == 0 {
                    return at.checked_sub(1).map(|name| tokens[name]);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_metal_has_not_is_found() {
        let found = |source: &str| check(source).expect_err(source);
        assert_eq!(found("double x;"), Forbidden::Word("double"));
        assert_eq!(found("int f(int x) { return f(x); }"), Forbidden::Recursion("f".to_owned()));
        assert_eq!(
            found(
                "namespace metile { int f(int x) { return metile::g(x); } int g(int x) { return x; } }"
            ),
            Forbidden::Recursion("g".to_owned())
        );
        assert_eq!(found("void k() { int (*f)(int) = g; }"), Forbidden::FunctionPointer);
        assert_eq!(found("void k(device int* p [[buffer(31)]]) { }"), Forbidden::Buffer(31));
        assert_eq!(
            found("[[kernel, max_total_threads_per_threadgroup(32)]] void k() { }"),
            Forbidden::OneSimdGroup
        );
    }

    #[test]
    fn metal_source_passes() {
        let source = "// a double in a comment\nnamespace metile {\ninline float erf(float x) { return precise::exp(x); }\n\
                      inline float exp(float x) { return precise::exp(x); }\n}\n\
                      [[kernel]] void k(device float* p [[buffer(30)]]) { *(p + 1) = metile::erf(*(p)); }";
        assert_eq!(check(source), Ok(()));
    }
}
