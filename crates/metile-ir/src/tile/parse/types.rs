//! Types and literals.

use super::lexer::{Token, shortened};
use super::{Parsed, Parser};
use crate::dtype::{DType, Format};
use crate::scalar::Scalar;
use crate::tile::{Access, Shape, TensorType, TileType, Type};
use half::{bf16, f16};

/// More sides than this aren't even collected for [`Shape::new`] to refuse.
const MAX_SIDES: usize = 16;

/// A constant as written; which scalar it is depends on the dtype that follows.
pub(super) struct Literal<'t> {
    text: &'t str,
    /// The bits of `nan:0x…`.
    nan: Option<u64>,
    offset: usize,
}

impl<'t> Parser<'t> {
    /// A type of a value.
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        let offset = self.start;
        let access = match self.token {
            Token::Word("mut") => Access::ReadWrite,
            Token::Word("counters") => Access::Counter,
            _ => Access::Read,
        };
        if access != Access::Read {
            self.advance()?;
        }
        match self.token {
            Token::Word("list") => {
                self.advance()?;
                Ok(Type::TensorList(self.memory(access)?))
            }
            Token::Mark('<') if access == Access::Counter => {
                Ok(Type::Tensor(self.memory(access)?))
            }
            Token::Word("tensor") if access != Access::Counter => {
                self.advance()?;
                Ok(Type::Tensor(self.memory(access)?))
            }
            Token::Word(word) if access == Access::Read => match DType::from_name(word) {
                Some(dtype) => {
                    self.advance()?;
                    Ok(Type::Tile(TileType::new(dtype, self.shape()?)))
                }
                None => Err(self
                    .fail(offset, format!("there is no type `{}`", shortened(word)))
                    .hint("types are written f32, f32[4, 8], tensor<f32, 2>, mut tensor<f32, 2>, counters<u32, 1> and list<f32, 2>")
                    .into()),
            },
            _ => Err(self.expected(match access {
                Access::Read => "a type",
                Access::ReadWrite => "`tensor` or `list` after `mut`",
                Access::Counter => "`<` or `list` after `counters`",
            })),
        }
    }

    /// `<f16, 2>`.
    fn memory(&mut self, access: Access) -> Parsed<TensorType> {
        self.mark('<')?;
        let Token::Word(word) = self.token else {
            return Err(self.expected("a format such as `f16` or `q4_0`"));
        };
        let Some(format) = Format::from_name(word) else {
            return Err(self
                .fail(self.start, format!("there is no format `{}`", shortened(word)))
                .hint("a tensor holds elements of a dtype, as `f16`, or a packed format, as `q4_0`")
                .into());
        };
        self.advance()?;
        self.mark(',')?;
        let rank = self.integer("a number of axes", u64::from(u8::MAX))? as u8;
        self.mark('>')?;
        Ok(TensorType { format, rank, access })
    }

    /// `[4, 8]`, or nothing for a scalar.
    fn shape(&mut self) -> Parsed<Shape> {
        let offset = self.start;
        if self.token != Token::Mark('[') {
            return Ok(Shape::SCALAR);
        }
        self.advance()?;
        let mut sides = Vec::new();
        loop {
            let side = self.integer("a side of the tile", u64::from(u32::MAX))?;
            // On a machine where this doesn't fit, it is too large in any case.
            sides.push(usize::try_from(side).unwrap_or(usize::MAX));
            if sides.len() > MAX_SIDES || !self.eat(',')? {
                break;
            }
        }
        let shape = Shape::new(&sides).map_err(|why| Box::new(self.fail(offset, why)))?;
        self.mark(']')?;
        Ok(shape)
    }

    /// A literal, to be made a scalar once its type is known.
    pub(super) fn literal(&mut self) -> Parsed<Literal<'t>> {
        let offset = self.start;
        let (Token::Number(text) | Token::Word(text)) = self.token else {
            return Err(self.expected("a constant such as `1`, `0.5`, `-inf` or `true`"));
        };
        self.advance()?;
        let mut nan = None;
        if text == "nan" {
            self.mark(':')?;
            let Token::Number(digits) = self.token else {
                return Err(self.expected("the bits of the NaN, as `0x7fc00000`"));
            };
            // The sign that `from_str_radix` takes is no part of the grammar.
            let hexadecimal = digits.strip_prefix("0x").filter(|d| !d.starts_with('+'));
            nan = hexadecimal.and_then(|d| u64::from_str_radix(d, 16).ok());
            if nan.is_none() {
                return Err(self.expected("the bits of the NaN, as `0x7fc00000`"));
            }
            self.advance()?;
        }
        Ok(Literal { text, nan, offset })
    }

    /// The scalar of `dtype` that `literal` is.
    pub(super) fn scalar(&self, literal: &Literal<'t>, dtype: DType) -> Parsed<Scalar> {
        let text = shortened(literal.text);
        let refused = |why: String| Err(Box::new(self.fail(literal.offset, why)));
        if dtype == DType::Bool {
            return match literal.text {
                "true" => Ok(Scalar::bool(true)),
                "false" => Ok(Scalar::bool(false)),
                _ => refused(format!("`{text}` is no bool; `true` and `false` are")),
            };
        }
        if let Some(bits) = literal.nan {
            let scalar = Scalar::from_bits(dtype, bits);
            let nan = scalar.bits() == bits && scalar.as_f32().is_some_and(f32::is_nan);
            return if nan {
                Ok(scalar)
            } else {
                refused(format!("{bits:#x} are not the bits of a NaN of {dtype}"))
            };
        }
        if dtype.is_float() {
            return match float(literal.text, dtype) {
                Some(scalar) if finite(scalar) != is_infinity(literal.text) => Ok(scalar),
                Some(_) => refused(format!("`{text}` is out of the range of {dtype}")),
                None => refused(format!("`{text}` is no constant of {dtype}")),
            };
        }
        let digits = literal.text.strip_prefix('-').unwrap_or(literal.text);
        if !digits.bytes().all(|b| b.is_ascii_digit()) || digits.is_empty() {
            return refused(format!("`{text}` is no constant of {dtype}"));
        }
        let value = literal.text.parse::<i128>().ok();
        match value.filter(|&v| Scalar::int(dtype, v).as_int() == Some(v)) {
            Some(value) => Ok(Scalar::int(dtype, value)),
            None => refused(format!("`{text}` is out of the range of {dtype}")),
        }
    }
}

/// The float of `dtype` nearest to a decimal, or an infinity.
fn float(text: &str, dtype: DType) -> Option<Scalar> {
    // `parse` takes `infinity`, `NaN` and `+1` too, which the grammar does not have.
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) && !is_infinity(text) {
        return None;
    }
    let wide = text.parse::<f32>().ok()?;
    Some(match dtype {
        DType::F16 => Scalar::f16(f16::from_f32(wide)),
        DType::BF16 => Scalar::bf16(bf16::from_f32(wide)),
        _ => Scalar::f32(wide),
    })
}

fn is_infinity(text: &str) -> bool {
    matches!(text, "inf" | "-inf")
}

fn finite(scalar: Scalar) -> bool {
    scalar.as_f32().is_some_and(f32::is_finite)
}
