//! The bytes that each token stands for.

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Each byte is a visible character of GPT-2's table.
    ByteLevel,
    /// Text with `▁` for a space, and `<0xNN>` for bytes that no token expresses.
    SentencePiece,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unused,
    Text,
    Control,
}

/// A token, as text that is decoded.
#[derive(Clone, Copy)]
pub(super) enum Bytes<'a> {
    /// Bytes that with those of neighbours make characters.
    Text(&'a [u8]),
    /// A control token's spelling.
    Control(&'a [u8]),
}

/// Every token's bytes by id.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Per id: where its bytes end, and what it is.
    tokens: Vec<(usize, Kind)>,
    spelling: Spelling,
}

impl Pieces {
    /// `text` are the ordinary tokens, `control` those that stand for themselves. Ids are below
    /// `limit`; others are left out.
    pub(super) fn new<'a>(
        spelling: Spelling,
        text: impl Iterator<Item = (u32, &'a str)>,
        control: impl Iterator<Item = (u32, &'a str)>,
        limit: usize,
    ) -> Pieces {
        let text = text.map(|(id, token)| (id, Kind::Text, token));
        let control = control.map(|(id, token)| (id, Kind::Control, token));
        let mut all: Vec<_> =
            text.chain(control).filter(|&(id, ..)| (id as usize) < limit).collect();
        // The sort is stable: of two with one id the control token stays.
        all.sort_by_key(|&(id, ..)| id);
        let mut pieces = Pieces { bytes: Vec::new(), tokens: Vec::new(), spelling };
        let table = byte_of_char();
        for (at, &(id, kind, token)) in all.iter().enumerate() {
            if all.get(at + 1).is_some_and(|&(next, ..)| next == id) {
                continue;
            }
            while pieces.tokens.len() < id as usize {
                pieces.tokens.push((pieces.bytes.len(), Kind::Unused));
            }
            match (kind, spelling) {
                (Kind::Text, Spelling::ByteLevel) => {
                    spell_byte_level(token, &table, &mut pieces.bytes)
                }
                (Kind::Text, Spelling::SentencePiece) => {
                    spell_sentencepiece(token, &mut pieces.bytes)
                }
                _ => pieces.bytes.extend(token.as_bytes()),
            }
            pieces.tokens.push((pieces.bytes.len(), kind));
        }
        pieces
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether a text's first space was put there by the tokenizer.
    pub(super) fn drops_first_space(&self) -> bool {
        self.spelling == Spelling::SentencePiece
    }

    pub(super) fn get(&self, id: u32) -> Option<Bytes<'_>> {
        let id = id as usize;
        let &(end, kind) = self.tokens.get(id)?;
        let start = if id == 0 { 0 } else { self.tokens[id - 1].0 };
        let bytes = &self.bytes[start..end];
        match kind {
            Kind::Unused => None,
            Kind::Text => Some(Bytes::Text(bytes)),
            Kind::Control => Some(Bytes::Control(bytes)),
        }
    }
}

/// The byte that each character of GPT-2's table stands for: printable bytes stand for themselves, the
/// others for U+0100 and up in their order. `None`: the character is not of the table.
fn byte_of_char() -> [Option<u8>; 512] {
    let mut table = [None; 512];
    let mut next = 256;
    for byte in 0..=255u8 {
        let itself = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let place = if itself { usize::from(byte) } else { next };
        table[place] = Some(byte);
        next += usize::from(!itself);
    }
    table
}

fn spell_byte_level(token: &str, table: &[Option<u8>; 512], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    for c in token.chars() {
        match table.get(c as usize) {
            Some(&Some(byte)) => bytes.push(byte),
            // As Hugging Face's decoder does: a token with another character stands for itself.
            _ => {
                bytes.truncate(start);
                bytes.extend(token.as_bytes());
                return;
            }
        }
    }
}

fn spell_sentencepiece(token: &str, bytes: &mut Vec<u8>) {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    match hex.filter(|hex| hex.len() == 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => bytes.push(byte),
        None => bytes.extend(token.replace('▁', " ").as_bytes()),
    }
}
