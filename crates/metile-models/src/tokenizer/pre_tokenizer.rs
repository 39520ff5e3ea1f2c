//! The splits of text into words that byte-pair merges never cross, by GGUF's names for them.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

/// Words of letters, single digits, runs of symbols with the line ends behind them.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The same with up to three digits together.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A split, and what goes with it.
pub(super) struct Rules {
    pub(super) normalizer: Option<NFC>,
    pub(super) split: PreTokenizerWrapper,
    /// Whether a word that is a token is that token, whatever the merges make of it.
    pub(super) whole_words: bool,
}

const KNOWN: &str = "gpt-2, llama-bpe, qwen2, deepseek-r1-qwen and smollm";

/// The rules called `name`; `prefix_space` puts a space before the text's first word.
pub(super) fn rules(name: &str, prefix_space: bool) -> Result<Rules, String> {
    let bytes = |regex| ByteLevel::new(prefix_space, true, regex).into();
    let split = |pattern: &str| -> Result<PreTokenizerWrapper, String> {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
        let split = split.map_err(|error| error.to_string())?.into();
        Ok(Sequence::new(vec![split, bytes(false)]).into())
    };
    match name {
        "gpt-2" => Ok(Rules { normalizer: None, split: bytes(true), whole_words: false }),
        "smollm" => {
            let split = Sequence::new(vec![Digits::new(true).into(), bytes(true)]).into();
            Ok(Rules { normalizer: None, split, whole_words: false })
        }
        "qwen2" | "deepseek-r1-qwen" => {
            Ok(Rules { normalizer: Some(NFC), split: split(QWEN2)?, whole_words: false })
        }
        "llama-bpe" => Ok(Rules { normalizer: None, split: split(LLAMA3)?, whole_words: true }),
        _ => Err(format!("the word split `{name}` is not known; {KNOWN} are")),
    }
}

/// What to say where a file names no split.
pub(super) fn missing() -> String {
    format!(
        "`tokenizer.ggml.pre` is missing, so nothing says how text is split into words; {KNOWN} are known"
    )
}
