//! SentencePiece vocabularies with scores, as `tokenizer.ggml.model` = `llama` holds them.

use std::collections::{HashMap, HashSet};

use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence};

use super::control::Added;
use super::gguf::TOKENS;
use crate::Error;
use crate::checkpoint::gguf::{Array, Header, Strings};

const SCORES: &str = "tokenizer.ggml.scores";
/// Longer tokens are not made of merges: the pairs to look at grow with the square of the length.
const LONGEST: usize = 256;

/// A BPE tokenizer that joins whatever two neighbours make the token with the best score.
pub(super) fn read(
    header: &Header,
    tokens: &Strings,
    added: &[Added],
) -> Result<tokenizers::Tokenizer, Error> {
    let scores = match header.array(SCORES)? {
        Some(Array::F32(scores)) if scores.len() == tokens.len() => scores,
        Some(Array::F32(scores)) => {
            let problem = format!("there are {} scores for {} tokens", scores.len(), tokens.len());
            return Err(header.fail(SCORES, problem));
        }
        Some(_) => return Err(header.fail(SCORES, "it is not a list of f32")),
        None => return Err(header.fail(SCORES, "the key is missing")),
    };
    if scores.iter().any(|score| score.is_nan()) {
        return Err(header.fail(SCORES, "a score is NaN"));
    }
    let fail = |problem: String| header.fail(TOKENS, problem);
    let control: HashSet<&str> = added.iter().map(|token| token.text.as_str()).collect();
    let ids: HashMap<&str, u32> =
        tokens.iter().zip(0u32..).filter(|(token, _)| !control.contains(token)).collect();
    if let Some(byte) = (0..=255).find(|byte| !ids.contains_key(format!("<0x{byte:02X}>").as_str()))
    {
        return Err(fail(format!("the token for byte {byte}, `<0x{byte:02X}>`, is missing")));
    }
    let merges = merges(&ids, scores);
    let vocabulary: tokenizers::models::bpe::Vocab =
        ids.iter().map(|(&token, &id)| (token.to_owned(), id)).collect();
    let model = BPE::builder().vocab_and_merges(vocabulary, merges).byte_fallback(true).build();
    let mut tokenizer = tokenizers::Tokenizer::new(model.map_err(|error| fail(error.to_string()))?);
    let spaces = Replace::new(" ", "▁").map_err(|error| fail(error.to_string()))?;
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if header.boolean("tokenizer.ggml.add_space_prefix")?.unwrap_or(true) {
        steps.push(Prepend::new("▁".to_owned()).into());
    }
    steps.push(spaces.into());
    let normalized = tokenizer.with_normalizer(Some(Sequence::new(steps)));
    normalized.map_err(|error| fail(error.to_string()))?;
    Ok(tokenizer)
}

/// Every pair of tokens that makes a token, the best score of the result first.
fn merges(ids: &HashMap<&str, u32>, scores: &[f32]) -> Vec<(String, String)> {
    let mut merges = Vec::new();
    for (&token, &id) in ids {
        if token.len() > LONGEST {
            continue;
        }
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if let (Some(&l), Some(&r)) = (ids.get(left), ids.get(right)) {
                merges.push((scores[id as usize], l, r, left, right));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    merges.into_iter().map(|(.., left, right)| (left.to_owned(), right.to_owned())).collect()
}
