//! Metadata values.

use std::fmt;
use std::fmt::Arguments;
use std::io::Read;

use super::reader::Reader;
use crate::Error;

/// Arrays of arrays of arrays of arrays are read; deeper ones serve nobody but an attacker of the stack.
const DEEPEST: usize = 4;

/// A metadata value of a GGUF file.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// An array of a GGUF file's metadata; all elements have one type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(Strings),
    Nested(Vec<Array>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// Many texts in one allocation: a vocabulary has some hundred thousand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strings {
    text: String,
    /// Where each text ends.
    ends: Vec<usize>,
}

impl Strings {
    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.text.get(start..*self.ends.get(index)?)
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Value {
    /// An integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(n) => Some(n.into()),
            Value::U16(n) => Some(n.into()),
            Value::U32(n) => Some(n.into()),
            Value::U64(n) => Some(n),
            Value::I8(n) => n.try_into().ok(),
            Value::I16(n) => n.try_into().ok(),
            Value::I32(n) => n.try_into().ok(),
            Value::I64(n) => n.try_into().ok(),
            _ => None,
        }
    }

    /// A finite number.
    pub fn as_f64(&self) -> Option<f64> {
        let number = match *self {
            Value::F32(x) => x.into(),
            Value::F64(x) => x,
            Value::I8(n) => n.into(),
            Value::I16(n) => n.into(),
            Value::I32(n) => n.into(),
            Value::I64(n) => n as f64,
            _ => self.as_u64()? as f64,
        };
        number.is_finite().then_some(number)
    }

    /// A truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The kind of value, for messages.
    pub(crate) fn kind(&self) -> String {
        match self {
            Value::String(_) => "a text".to_owned(),
            Value::Array(array) => format!("a list of {}", array.len()),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(n) => write!(f, "the u8 {n}"),
            Value::I8(n) => write!(f, "the i8 {n}"),
            Value::U16(n) => write!(f, "the u16 {n}"),
            Value::I16(n) => write!(f, "the i16 {n}"),
            Value::U32(n) => write!(f, "the u32 {n}"),
            Value::I32(n) => write!(f, "the i32 {n}"),
            Value::F32(x) => write!(f, "the f32 {x}"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::String(_) => f.write_str("a text"),
            Value::Array(array) => write!(f, "a list of {}", array.len()),
            Value::U64(n) => write!(f, "the u64 {n}"),
            Value::I64(n) => write!(f, "the i64 {n}"),
            Value::F64(x) => write!(f, "the f64 {x}"),
        }
    }
}

impl Array {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(a) => a.len(),
            Array::I8(a) => a.len(),
            Array::U16(a) => a.len(),
            Array::I16(a) => a.len(),
            Array::U32(a) => a.len(),
            Array::I32(a) => a.len(),
            Array::F32(a) => a.len(),
            Array::Bool(a) => a.len(),
            Array::String(a) => a.len(),
            Array::Nested(a) => a.len(),
            Array::U64(a) => a.len(),
            Array::I64(a) => a.len(),
            Array::F64(a) => a.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The value of type `kind` that comes next.
pub(super) fn read<R: Read>(
    reader: &mut Reader<'_, R>,
    kind: u32,
    field: Arguments<'_>,
) -> Result<Value, Error> {
    Ok(match kind {
        0 => Value::U8(u8::from_le_bytes(reader.bytes(field)?)),
        1 => Value::I8(i8::from_le_bytes(reader.bytes(field)?)),
        2 => Value::U16(u16::from_le_bytes(reader.bytes(field)?)),
        3 => Value::I16(i16::from_le_bytes(reader.bytes(field)?)),
        4 => Value::U32(reader.u32(field)?),
        5 => Value::I32(i32::from_le_bytes(reader.bytes(field)?)),
        6 => Value::F32(f32::from_le_bytes(reader.bytes(field)?)),
        7 => {
            let at = reader.at();
            let [byte] = reader.bytes(field)?;
            Value::Bool(truth(byte).ok_or_else(|| bad_bool(reader, at, byte, field))?)
        }
        8 => Value::String(reader.string(format_args!("value of {field}"))?),
        9 => Value::Array(array(reader, field, 1)?),
        10 => Value::U64(reader.u64(field)?),
        11 => Value::I64(i64::from_le_bytes(reader.bytes(field)?)),
        12 => Value::F64(f64::from_le_bytes(reader.bytes(field)?)),
        _ => return Err(no_type(reader, kind, field)),
    })
}

fn no_type<R: Read>(reader: &Reader<'_, R>, kind: u32, field: Arguments<'_>) -> Error {
    let problem = format!("its type is {kind}; there are types 0 to 12");
    reader.fail(reader.at().saturating_sub(4), field, problem)
}

fn truth(byte: u8) -> Option<bool> {
    (byte <= 1).then_some(byte == 1)
}

fn bad_bool<R: Read>(r: &Reader<'_, R>, at: u64, byte: u8, field: Arguments<'_>) -> Error {
    r.fail(at, field, format!("a truth value is 0 or 1, not {byte}"))
}

fn array<R: Read>(
    reader: &mut Reader<'_, R>,
    field: Arguments<'_>,
    depth: usize,
) -> Result<Array, Error> {
    let kind = reader.u32(format_args!("element type of {field}"))?;
    if kind > 12 {
        return Err(no_type(reader, kind, field));
    }
    let at = reader.at();
    let count = reader.u64(format_args!("length of {field}"))?;
    // The least bytes of an element: a string has a length, an array a type and a length.
    let least = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        9 => 12,
        _ => 8,
    };
    let left = reader.left();
    if count > left / least {
        let problem = format!(
            "{count} elements of at least {least} bytes do not fit the {left} that are left"
        );
        return Err(reader.fail(at, format_args!("length of {field}"), problem));
    }
    Ok(match kind {
        0 => Array::U8(reader.block(count, field)?),
        1 => Array::I8(fixed(reader, count, field, i8::from_le_bytes)?),
        2 => Array::U16(fixed(reader, count, field, u16::from_le_bytes)?),
        3 => Array::I16(fixed(reader, count, field, i16::from_le_bytes)?),
        4 => Array::U32(fixed(reader, count, field, u32::from_le_bytes)?),
        5 => Array::I32(fixed(reader, count, field, i32::from_le_bytes)?),
        6 => Array::F32(fixed(reader, count, field, f32::from_le_bytes)?),
        7 => {
            let at = reader.at();
            let bytes = reader.block(count, field)?;
            let list: Option<Vec<bool>> = bytes.iter().map(|&byte| truth(byte)).collect();
            let odd = || {
                let place = bytes.iter().position(|&byte| byte > 1).unwrap_or_default();
                bad_bool(reader, at + place as u64, bytes[place], field)
            };
            Array::Bool(list.ok_or_else(odd)?)
        }
        8 => Array::String(strings(reader, count, field)?),
        9 if depth == DEEPEST => {
            let problem = format!("arrays are nested deeper than {DEEPEST}");
            return Err(reader.fail(at, field, problem));
        }
        9 => {
            let mut list = Vec::new();
            for _ in 0..count {
                list.push(array(reader, field, depth + 1)?);
            }
            Array::Nested(list)
        }
        10 => Array::U64(fixed(reader, count, field, u64::from_le_bytes)?),
        11 => Array::I64(fixed(reader, count, field, i64::from_le_bytes)?),
        _ => Array::F64(fixed(reader, count, field, f64::from_le_bytes)?),
    })
}

fn fixed<R: Read, T, const N: usize>(
    reader: &mut Reader<'_, R>,
    count: u64,
    field: Arguments<'_>,
    from: fn([u8; N]) -> T,
) -> Result<Vec<T>, Error> {
    // The count was compared with the bytes left, so the product does not overflow.
    let bytes = reader.block(count * N as u64, field)?;
    let (elements, _) = bytes.as_chunks::<N>();
    Ok(elements.iter().map(|&bytes| from(bytes)).collect())
}

fn strings<R: Read>(
    reader: &mut Reader<'_, R>,
    count: u64,
    field: Arguments<'_>,
) -> Result<Strings, Error> {
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for n in 0..count {
        let at = reader.at();
        let length = reader.u64(format_args!("length of text {n} of {field}"))?;
        let start = bytes.len();
        reader.append(length, &mut bytes, format_args!("text {n} of {field}"))?;
        if std::str::from_utf8(&bytes[start..]).is_err() {
            return Err(reader.fail(at, format_args!("text {n} of {field}"), "it is not UTF-8"));
        }
        ends.push(bytes.len());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| reader.fail(reader.at(), field, "its texts are not UTF-8"))?;
    Ok(Strings { text, ends })
}
