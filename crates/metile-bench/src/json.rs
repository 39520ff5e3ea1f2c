//! JSON as reports are read: strictly. No NaN or infinity, no key twice, no file beyond a size.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};
use std::fmt;

/// Bytes that a report may have. Ids of a long-document run are under 4 MiB.
pub const MAX_BYTES: u64 = 64 << 20;

/// Why bytes are no JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// More than a report may have.
    #[error("the file has {0} bytes; a report has at most {MAX_BYTES}")]
    TooLarge(u64),
    /// Not JSON, or a key twice; the message has the line and column.
    #[error("not strict JSON: {0}")]
    Syntax(#[from] serde_json::Error),
}

/// Reads `bytes` as one JSON value. Bare `NaN` and `Infinity`, numbers beyond f64 and repeated keys are
/// refused; objects keep no order.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(JsonError::TooLarge(bytes.len() as u64));
    }
    let Strict(value) = serde_json::from_slice(bytes)?;
    Ok(value)
}

/// SHA-256, as hex, of the value written compactly with sorted keys: the same for every layout of the
/// same content.
pub fn content_digest(value: &Value) -> String {
    let mut hash = Sha256::new();
    digest_into(value, &mut hash);
    hex(&hash.finalize())
}

/// Keys are sorted here: whether a map keeps them so depends on features that other crates ask for.
fn digest_into(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Array(items) => {
            hash.update(b"[");
            for item in items {
                digest_into(item, hash);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            hash.update(b"{");
            for key in keys {
                hash.update(Value::from(key.as_str()).to_string());
                hash.update(b":");
                if let Some(field) = fields.get(key) {
                    digest_into(field, hash);
                }
                hash.update(b",");
            }
            hash.update(b"}");
        }
        leaf => hash.update(leaf.to_string()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A value whose objects have each key once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::from(v))
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number beyond f64"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Strict(value) = map.next_value()?;
            if object.contains_key(&key) {
                return Err(serde::de::Error::custom(format!(
                    "the key `{key}` twice in an object"
                )));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_strict_json_is_refused_with_its_place() {
        for (text, why) in [
            ("{\"a\": NaN}", "line 1 column 7"),
            ("{\"a\": -Infinity}", "line 1 column"),
            ("{\"a\": 1e999}", "out of range"),
            ("{\"a\": 1, \"a\": 2}", "the key `a` twice"),
            ("{\"a\": 1} {}", "trailing"),
            ("", "EOF"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).unwrap_err().to_string().contains("recursion"));
    }

    #[test]
    fn the_digest_is_of_the_content() {
        let digest = |text: &str| content_digest(&parse(text.as_bytes()).unwrap());
        assert_eq!(digest("{\"b\":1.50,\"a\":[1]}"), digest("{ \"a\": [ 1 ],\n \"b\": 1.5 }"));
        assert_ne!(digest("{\"a\":1}"), digest("{\"a\":2}"));
    }
}
