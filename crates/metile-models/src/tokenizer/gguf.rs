//! The vocabulary in a GGUF file's metadata.

use std::collections::HashSet;

use tokenizers::models::bpe::BPE;

use super::control::{Added, Control};
use super::pieces::{Pieces, Spelling};
use super::{Tokenizer, pre_tokenizer, sentencepiece};
use crate::Error;
use crate::checkpoint::gguf::{Array, Header, Strings};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const PRE: &str = "tokenizer.ggml.pre";
const MODEL: &str = "tokenizer.ggml.model";

/// What `tokenizer.ggml.token_type` says of a token.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const MOST_TYPES: i64 = 6;

pub(super) fn read(header: &Header) -> Result<Tokenizer, Error> {
    let model = header
        .text(MODEL)?
        .ok_or_else(|| header.fail(MODEL, "the key is missing: the file holds no tokenizer"))?;
    let tokens = header.texts(TOKENS)?.ok_or_else(|| header.fail(TOKENS, "the key is missing"))?;
    let added = added_tokens(header, tokens)?;
    let (plain, spelling) = match model {
        "gpt2" => (byte_pairs(header, tokens, &added)?, Spelling::ByteLevel),
        "llama" => (sentencepiece::read(header, tokens, &added)?, Spelling::SentencePiece),
        other => {
            let problem = format!("`{other}` tokenizers are not supported; `gpt2` and `llama` are");
            return Err(header.fail(MODEL, problem));
        }
    };
    let all = (0u32..).zip(tokens.iter());
    let marked = added.iter().map(|token| (token.id, token.text.as_str()));
    let pieces = Pieces::new(spelling, all, marked, tokens.len());
    let control = Control::new(added).map_err(|problem| header.fail(TOKENS, problem))?;
    let path = header.path().to_path_buf();
    Ok(Tokenizer { path, plain, control, pieces, begin: None, notes: Vec::new() })
}

/// Control tokens, and tokens that users of the vocabulary added.
fn added_tokens(header: &Header, tokens: &Strings) -> Result<Vec<Added>, Error> {
    let types: Vec<i64> = match header.array(TYPES)? {
        Some(Array::I32(types)) => types.iter().map(|&t| t.into()).collect(),
        Some(Array::U32(types)) => types.iter().map(|&t| t.into()).collect(),
        Some(_) => return Err(header.fail(TYPES, "it is a list of neither i32 nor u32")),
        // Nothing would say what is a control token, so every text could become one.
        None => return Err(header.fail(TYPES, "the key is missing")),
    };
    if types.len() != tokens.len() {
        let problem = format!("there are {} types for {} tokens", types.len(), tokens.len());
        return Err(header.fail(TYPES, problem));
    }
    let mut added = Vec::new();
    let mut seen = HashSet::new();
    for ((id, text), kind) in (0u32..).zip(tokens.iter()).zip(types) {
        if !(1..=MOST_TYPES).contains(&kind) {
            let problem = format!("token {id} has type {kind}; there are types 1 to {MOST_TYPES}");
            return Err(header.fail(TYPES, problem));
        }
        if (kind == CONTROL || kind == USER_DEFINED) && !text.is_empty() && seen.insert(text) {
            let ordinary =
                kind == USER_DEFINED && text.chars().all(|c| c.is_whitespace() || c == '▁');
            added.push(Added { ordinary, ..Added::new(text, id) });
        }
    }
    Ok(added)
}

/// A byte-level BPE tokenizer without control tokens.
fn byte_pairs(
    header: &Header,
    tokens: &Strings,
    added: &[Added],
) -> Result<tokenizers::Tokenizer, Error> {
    let pre = header.text(PRE)?.ok_or_else(|| header.fail(PRE, pre_tokenizer::missing()))?;
    let prefix_space = header.boolean("tokenizer.ggml.add_space_prefix")?.unwrap_or(false);
    let rules = pre_tokenizer::rules(pre, prefix_space).map_err(|p| header.fail(PRE, p))?;
    let merges = header.texts(MERGES)?.ok_or_else(|| header.fail(MERGES, "the key is missing"))?;
    let control: HashSet<&str> = added.iter().map(|token| token.text.as_str()).collect();
    let mut pairs = Vec::with_capacity(merges.len());
    for (n, merge) in merges.iter().enumerate() {
        let Some((left, right)) =
            merge.split_once(' ').filter(|(l, r)| !l.is_empty() && !r.is_empty())
        else {
            return Err(header.fail(
                MERGES,
                format!("merge {n}, `{merge}`, is not two parts with a space between"),
            ));
        };
        // A merge that ends in a control token would let text become it.
        if !control.contains(format!("{left}{right}").as_str()) {
            pairs.push((left.to_owned(), right.to_owned()));
        }
    }
    let vocabulary = (0u32..).zip(tokens.iter()).filter(|(_, token)| !control.contains(token));
    let vocabulary: tokenizers::models::bpe::Vocab =
        vocabulary.map(|(id, token)| (token.to_owned(), id)).collect();
    let model = BPE::builder()
        .vocab_and_merges(vocabulary, pairs)
        .ignore_merges(rules.whole_words)
        .build()
        .map_err(|error| header.fail(MERGES, error.to_string()))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    let normalized = tokenizer.with_normalizer(rules.normalizer);
    normalized.map_err(|error| header.fail(TOKENS, error.to_string()))?;
    tokenizer.with_pre_tokenizer(Some(rules.split));
    Ok(tokenizer)
}
