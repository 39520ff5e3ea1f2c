//! JSON files and their settings, read with errors that name file and key.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::Error;

/// The bytes of a file of at most `limit` bytes.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let io = |action| move |source| Error::Io { path: path.to_path_buf(), action, source };
    // Asked before it is opened: to open a pipe waits for who writes to it.
    if !std::fs::metadata(path).map_err(io("open"))?.is_file() {
        let problem = "it is not a regular file".to_owned();
        return Err(Error::Json { path: path.to_path_buf(), problem });
    }
    let file = std::fs::File::open(path).map_err(io("open"))?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io("read"))?;
    if bytes.len() as u64 > limit {
        let problem =
            format!("the file has more than {limit} bytes, which is the most it may have");
        return Err(Error::Json { path: path.to_path_buf(), problem });
    }
    Ok(bytes)
}

/// The most bytes of a configuration file.
const CONFIG_LIMIT: u64 = 16 << 20;

/// The settings of one JSON object, in a file.
pub(crate) struct Keys {
    path: PathBuf,
    /// What stands before a key's name in messages: the objects around this one.
    prefix: String,
    map: Map<String, Value>,
}

impl Keys {
    /// The object that the file at `path` holds.
    pub(crate) fn read(path: &Path) -> Result<Keys, Error> {
        let bytes = read_bytes(path, CONFIG_LIMIT)?;
        let json = |problem| Error::Json { path: path.to_path_buf(), problem };
        let value = serde_json::from_slice(&bytes).map_err(|e| json(e.to_string()))?;
        let Value::Object(map) = value else {
            return Err(json(format!("the file holds {}, not an object", kind(&value))));
        };
        Ok(Keys { path: path.to_path_buf(), prefix: String::new(), map })
    }

    /// The same, or `None` where there is no such file.
    pub(crate) fn read_if_present(path: &Path) -> Result<Option<Keys>, Error> {
        if path.exists() { Keys::read(path).map(Some) } else { Ok(None) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about `key`.
    pub(crate) fn fail(&self, key: &str, problem: impl Into<String>) -> Error {
        let key = format!("{}{key}", self.prefix);
        Error::Config { path: self.path.clone(), key, problem: problem.into() }
    }

    /// The value of `key`; null is like none.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The keys that have a value other than null.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.map.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str())
    }

    fn wanted(&self, key: &str, value: &Value, what: &str) -> Error {
        self.fail(key, format!("it is {}, not {what}", shown(value)))
    }

    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        // A product of two such counts still fits 64 bits.
        match value.as_u64().filter(|&n| n <= u64::from(u32::MAX)) {
            Some(n) => Ok(Some(n as usize)),
            None => Err(self.wanted(key, value, "a whole number from 0 to 2^32 - 1")),
        }
    }

    pub(crate) fn needed_count(&self, key: &str) -> Result<usize, Error> {
        match self.count(key)? {
            Some(0) => Err(self.fail(key, "it is 0, not a positive number")),
            Some(n) => Ok(n),
            None => Err(self.fail(key, "the setting is missing")),
        }
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().filter(|x| x.is_finite()) {
            Some(x) => Ok(Some(x)),
            None => Err(self.wanted(key, value, "a finite number")),
        }
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wanted(key, value, "true or false"))
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wanted(key, value, "a text"))
    }

    /// A token's text: a string, or an object with `content`.
    pub(crate) fn token(&self, key: &str) -> Result<Option<&str>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
        text.map(Some).ok_or_else(|| self.wanted(key, value, "a token's text"))
    }

    /// One id, a list of ids, or none.
    pub(crate) fn ids(&self, key: &str) -> Result<Vec<u32>, Error> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let one = |v: &Value| {
            let id = v.as_u64().and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| self.wanted(key, v, "a token id, or a list of them"))
        };
        match value {
            Value::Array(list) => list.iter().map(one).collect(),
            _ => Ok(vec![one(value)?]),
        }
    }

    pub(crate) fn object(&self, key: &str) -> Result<Option<Keys>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Keys {
                path: self.path.clone(),
                prefix: format!("{}{key}.", self.prefix),
                map: map.clone(),
            })),
            Some(value) => Err(self.wanted(key, value, "an object")),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value as messages show it: short ones as they are, others by their kind.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 60 { text } else { kind(value).to_owned() }
}
