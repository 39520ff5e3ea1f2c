//! `tokenizer.json` and `tokenizer_config.json`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::Value;

use super::Tokenizer;
use super::control::{Added, Control};
use super::pieces::{Pieces, Spelling};
use crate::Error;
use crate::json::{Keys, read_bytes};

/// The most bytes of a `tokenizer.json`; those of the largest vocabularies take a tenth.
const LIMIT: u64 = 256 << 20;
const FILE: &str = "tokenizer.json";
pub(crate) const CONFIG_FILE: &str = "tokenizer_config.json";

/// An entry of `added_tokens`.
#[derive(serde::Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    special: bool,
}

/// The tokens that begin and end texts, as the tokenizer's files name them.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) begin_id: Option<u32>,
    pub(crate) end_id: Option<u32>,
    /// Whether prompts begin with `begin_id`.
    pub(crate) add_begin: bool,
}

impl Marks {
    /// Those of the files in `folder`; none where there are no files.
    pub(crate) fn read(folder: &Path) -> Result<Marks, Error> {
        #[derive(serde::Deserialize)]
        struct File {
            #[serde(default)]
            added_tokens: Vec<AddedToken>,
            post_processor: Option<Value>,
        }
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(Marks::default());
        }
        let bytes = read_bytes(&path, LIMIT)?;
        let json = |error: serde_json::Error| Error::Json {
            path: path.clone(),
            problem: error.to_string(),
        };
        let file: File = serde_json::from_slice(&bytes).map_err(json)?;
        let template_begin = file.post_processor.as_ref().and_then(first_special);
        let keys = Keys::read_if_present(&folder.join(CONFIG_FILE))?;
        let id = |text: &str| -> Result<u32, Error> {
            if let Some(token) = file.added_tokens.iter().find(|token| token.content == text) {
                return Ok(token.id);
            }
            #[derive(serde::Deserialize)]
            struct File {
                model: Model,
            }
            #[derive(serde::Deserialize)]
            struct Model {
                vocab: HashMap<String, u32>,
            }
            let file: File = serde_json::from_slice(&bytes).map_err(json)?;
            file.model.vocab.get(text).copied().ok_or_else(|| Error::Tokenizer {
                path: path.clone(),
                problem: format!("{CONFIG_FILE} names the token `{text}`, which is not there"),
            })
        };
        let mut marks = Marks::default();
        let mut explicit = None;
        let mut begin_text = template_begin.clone();
        if let Some(keys) = &keys {
            explicit = keys.boolean("add_bos_token")?;
            begin_text = begin_text.or(keys.token("bos_token")?.map(str::to_owned));
            marks.end_id = keys.token("eos_token")?.map(&id).transpose()?;
        }
        marks.begin_id = begin_text.as_deref().map(&id).transpose()?;
        marks.add_begin = explicit.unwrap_or(template_begin.is_some());
        Ok(marks)
    }
}

/// The token that a post-processor puts before a text.
fn first_special(post: &Value) -> Option<String> {
    match post.get("type")?.as_str()? {
        "Sequence" => post.get("processors")?.as_array()?.iter().find_map(first_special),
        "TemplateProcessing" => {
            let first = post.get("single")?.as_array()?.first()?;
            Some(first.get("SpecialToken")?.get("id")?.as_str()?.to_owned())
        }
        _ => None,
    }
}

/// The tokenizer in `folder`, for a model of `vocabulary` tokens.
pub(super) fn read(folder: &Path, vocabulary: usize) -> Result<Tokenizer, Error> {
    let path = folder.join(FILE);
    let fail = |problem: String| Error::Tokenizer { path: path.clone(), problem };
    if !path.exists() {
        return Err(fail("the file is missing".to_owned()));
    }
    let bytes = read_bytes(&path, LIMIT)?;
    let json = |error: serde_json::Error| fail(error.to_string());
    let mut file: Value = serde_json::from_slice(&bytes).map_err(json)?;
    drop(bytes);
    let spelling = spelling(&file).map_err(fail)?;
    let mut notes = Vec::new();
    let added = take_added(&mut file, vocabulary, &mut notes).map_err(fail)?;
    keep_text_only(&mut file, &added).map_err(fail)?;
    let plain: tokenizers::Tokenizer = serde_json::from_value(file).map_err(json)?;
    let tokens = plain.get_vocab(false);
    if let Some((token, id)) = tokens.iter().find(|&(_, &id)| id as usize >= vocabulary) {
        let problem = format!("token `{token}` has id {id}, but the model has {vocabulary} tokens");
        return Err(fail(problem));
    }
    let text = tokens.iter().map(|(token, &id)| (id, token.as_str()));
    let marked = added.iter().map(|token| (token.id, token.text.as_str()));
    let pieces = Pieces::new(spelling, text, marked, vocabulary);
    let control = Control::new(added).map_err(fail)?;
    Ok(Tokenizer { path, plain, control, pieces, begin: None, notes })
}

/// How the file's decoder spells bytes.
fn spelling(file: &Value) -> Result<Spelling, String> {
    let decoder = file.get("decoder").unwrap_or(&Value::Null);
    let kind = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
    let mut kinds: Vec<String> = kind(decoder).into_iter().collect();
    if let Some(list) = decoder.get("decoders").and_then(Value::as_array) {
        kinds.extend(list.iter().filter_map(kind));
    }
    match &kinds[..] {
        _ if kinds.iter().any(|kind| kind == "ByteLevel") => Ok(Spelling::ByteLevel),
        _ if kinds.iter().any(|kind| kind == "ByteFallback") => Ok(Spelling::SentencePiece),
        [] => Err("it has no decoder; ByteLevel and ByteFallback are supported".to_owned()),
        [first, ..] => {
            Err(format!("its decoder is {first}; ByteLevel and ByteFallback are supported"))
        }
    }
}

/// Takes `added_tokens` out of the file.
fn take_added(
    file: &mut Value,
    vocabulary: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<Added>, String> {
    let list = file.get_mut("added_tokens").map(Value::take).unwrap_or_default();
    let list: Option<Vec<AddedToken>> =
        serde_json::from_value(list).map_err(|error| format!("`added_tokens`: {error}"))?;
    let mut added = Vec::new();
    let mut seen = HashSet::new();
    for token in list.unwrap_or_default() {
        if token.content.is_empty() {
            return Err(format!("`added_tokens`: token {} is empty", token.id));
        }
        if !seen.insert(token.content.clone()) {
            return Err(format!("`added_tokens`: `{}` is there twice", token.content));
        }
        if token.id as usize >= vocabulary {
            notes.push(format!(
                "token `{}` is left out: its id is {}, but the model has {vocabulary} tokens",
                token.content, token.id
            ));
            continue;
        }
        added.push(Added {
            id: token.id,
            strip_before: token.lstrip,
            strip_after: token.rstrip,
            single_word: token.single_word,
            ordinary: !token.special && token.content.chars().all(char::is_whitespace),
            text: token.content,
        });
    }
    Ok(added)
}

/// Makes the file that of a tokenizer for which control tokens are text like any other.
fn keep_text_only(file: &mut Value, added: &[Added]) -> Result<(), String> {
    let Value::Object(file) = file else {
        return Err("the file does not hold an object".to_owned());
    };
    file.insert("added_tokens".to_owned(), Value::Array(Vec::new()));
    // These change how ids are laid out in batches, and put in control tokens: not its work here.
    for key in ["truncation", "padding", "post_processor"] {
        file.insert(key.to_owned(), Value::Null);
    }
    let model = file.get_mut("model").ok_or("`model` is missing")?;
    // Files before the field was introduced hold BPE where there are merges.
    let kind = model.get("type").and_then(Value::as_str);
    let kind = kind.or(model.get("merges").map(|_| "BPE")).unwrap_or("of no type");
    if kind != "BPE" {
        return Err(format!("its model is {kind}; BPE is supported"));
    }
    if model.get("dropout").and_then(Value::as_f64).is_some_and(|share| share != 0.0) {
        return Err("`model.dropout` makes encoding random, which is not supported".to_owned());
    }
    let unknown = model.get("unk_token").and_then(Value::as_str).map(str::to_owned);
    let control: HashSet<&str> = added
        .iter()
        .map(|token| token.text.as_str())
        .filter(|&text| Some(text) != unknown.as_deref())
        .collect();
    if let Some(Value::Object(vocab)) = model.get_mut("vocab") {
        vocab.retain(|token, _| !control.contains(token.as_str()));
    }
    if let Some(Value::Array(merges)) = model.get_mut("merges") {
        merges.retain(|merge| {
            let result = match merge {
                Value::String(pair) => pair.replacen(' ', "", 1),
                Value::Array(pair) => pair.iter().filter_map(Value::as_str).collect(),
                _ => return true,
            };
            !control.contains(result.as_str())
        });
    }
    Ok(())
}
