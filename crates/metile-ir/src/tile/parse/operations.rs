//! Operations without regions: the statement, and the families that work on tiles.

use super::control::Draft;
use super::lexer::{Token, shortened};
use super::{Name, Parsed, Parser};
use crate::tile::infer::op_name;
use crate::tile::print::{reduce_name, scan_name};
use crate::tile::{BinaryOp, CompareOp, OpKind, ReduceOp, ScanOp, Type, UnaryOp, Value};

/// What an operation is, and its operands.
pub(super) type Simple = (OpKind, Vec<Value>);

const UNARY: [UnaryOp; 18] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Not,
    UnaryOp::ReverseBits,
    UnaryOp::Exp,
    UnaryOp::Exp2,
    UnaryOp::Log,
    UnaryOp::Log2,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Erf,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
];

const BINARY: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
];

const COMPARE: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

const REDUCE: [ReduceOp; 7] = [
    ReduceOp::Sum,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::ArgMax,
    ReduceOp::ArgMin,
    ReduceOp::Any,
    ReduceOp::All,
];

const SCAN: [ScanOp; 3] = [ScanOp::Sum, ScanOp::Max, ScanOp::Min];

/// Whether the operation has a result; those with regions have any number.
fn has_result(kind: &OpKind) -> bool {
    !matches!(
        kind,
        OpKind::Store { .. }
            | OpKind::StoreTile
            | OpKind::CounterAdd
            | OpKind::CounterWait
            | OpKind::GridBarrier
            | OpKind::Assert { .. }
            | OpKind::Print { .. }
            | OpKind::Yield
            | OpKind::Condition
            | OpKind::Return
    )
}

impl<'t> Parser<'t> {
    /// The operation `word`, which starts at `start` and is passed, with its result type.
    pub(super) fn simple(
        &mut self,
        word: &'t str,
        start: usize,
        names: &[Name<'t>],
    ) -> Parsed<Draft> {
        let (kind, operands, ty) = if word == "constant" {
            let literal = self.literal()?;
            let ty = self.result_type()?;
            let Some(tile) = ty.tile() else {
                return Err(self.fail(start, format!("a constant is a tile, not a {ty}")).into());
            };
            (OpKind::Constant(self.scalar(&literal, tile.dtype)?), Vec::new(), Some(ty))
        } else {
            let (kind, operands) = self.any_simple(word, start)?;
            let ty = if has_result(&kind) { Some(self.result_type()?) } else { None };
            (kind, operands, ty)
        };
        let types: Vec<Type> = ty.into_iter().collect();
        self.same_count(word, names, types.len(), start)?;
        let span = self.location()?;
        Ok(Draft { kind, operands, types, regions: Vec::new(), span })
    }

    fn result_type(&mut self) -> Parsed<Type> {
        if !self.eat(':')? {
            return Err(self.expected("`:` and the type of the result"));
        }
        self.ty()
    }

    fn any_simple(&mut self, word: &'t str, start: usize) -> Parsed<Simple> {
        if let Some(found) = self.elementwise(word)? {
            return Ok(found);
        }
        if let Some(found) = self.reshaping(word)? {
            return Ok(found);
        }
        if let Some(found) = self.combining(word)? {
            return Ok(found);
        }
        if let Some(found) = self.memory_access(word)? {
            return Ok(found);
        }
        if let Some(found) = self.effect(word)? {
            return Ok(found);
        }
        let message = format!("there is no operation `{}`", shortened(word));
        Err(self.fail(start, message).into())
    }

    fn elementwise(&mut self, word: &str) -> Parsed<Option<Simple>> {
        let (kind, count) = match word {
            "program_id" => return Ok(Some((OpKind::ProgramId(self.axis()?), Vec::new()))),
            "num_programs" => return Ok(Some((OpKind::NumPrograms(self.axis()?), Vec::new()))),
            "arange" => (OpKind::Arange, 0),
            "select" => (OpKind::Select, 3),
            "fma" => (OpKind::Fma, 3),
            "cast" => (OpKind::Cast, 1),
            "bitcast" => (OpKind::Bitcast, 1),
            _ => {
                let unary = UNARY.iter().map(|&op| (OpKind::Unary(op), 1));
                let binary = BINARY.iter().map(|&op| (OpKind::Binary(op), 2));
                let compare = COMPARE.iter().map(|&op| (OpKind::Compare(op), 2));
                let mut all = unary.chain(binary).chain(compare);
                match all.find(|(kind, _)| op_name(kind) == word) {
                    Some(found) => found,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some((kind, self.operands(count)?)))
    }

    fn reshaping(&mut self, word: &str) -> Parsed<Option<Simple>> {
        Ok(Some(match word {
            "broadcast" => (OpKind::Broadcast, self.operands(1)?),
            "reshape" => (OpKind::Reshape, self.operands(1)?),
            "transpose" => {
                let operands = self.operands(1)?;
                self.mark('[')?;
                (OpKind::Transpose(self.list(']', |p| p.axis())?), operands)
            }
            "slice" => {
                let operands = self.operands(1)?;
                let axis = self.axis_word()?;
                self.word("start")?;
                let start = self.integer("the first element", u64::from(u32::MAX))? as u32;
                self.word("step")?;
                let step = self.integer("the step", u64::from(u32::MAX))? as u32;
                (OpKind::Slice { axis, start, step }, operands)
            }
            "cat" => {
                let axis = self.axis_word()?;
                let mut operands = vec![self.value()?];
                self.more_operands(&mut operands)?;
                (OpKind::Cat { axis }, operands)
            }
            "gather" => {
                let operands = self.operands(2)?;
                (OpKind::Gather { axis: self.axis_word()? }, operands)
            }
            _ => return Ok(None),
        }))
    }

    fn combining(&mut self, word: &str) -> Parsed<Option<Simple>> {
        Ok(Some(match word {
            "reduce" => {
                let op = self.choice(&REDUCE, reduce_name)?;
                let operands = self.operands(1)?;
                (OpKind::Reduce { op, axis: self.axis_word()? }, operands)
            }
            "scan" => {
                let op = self.choice(&SCAN, scan_name)?;
                let operands = self.operands(1)?;
                (OpKind::Scan { op, axis: self.axis_word()? }, operands)
            }
            "dot" => {
                let operands = self.operands(3)?;
                let transpose_a = self.flag("transpose_a")?;
                let transpose_b = self.flag("transpose_b")?;
                (OpKind::Dot { transpose_a, transpose_b }, operands)
            }
            _ => return Ok(None),
        }))
    }

    /// `count` values.
    pub(super) fn operands(&mut self, count: usize) -> Parsed<Vec<Value>> {
        let mut operands = Vec::new();
        for n in 0..count {
            if n > 0 {
                self.mark(',')?;
            }
            operands.push(self.value()?);
        }
        Ok(operands)
    }

    /// Any number of values, each after a comma.
    pub(super) fn more_operands(&mut self, operands: &mut Vec<Value>) -> Parsed<()> {
        while self.eat(',')? {
            self.room(operands.len())?;
            operands.push(self.value()?);
        }
        Ok(())
    }

    pub(super) fn axis(&mut self) -> Parsed<u8> {
        Ok(self.integer("an axis", u64::from(u8::MAX))? as u8)
    }

    /// `axis 0`.
    pub(super) fn axis_word(&mut self) -> Parsed<u8> {
        self.word("axis")?;
        self.axis()
    }

    /// Whether `word` stands here.
    pub(super) fn flag(&mut self, word: &'static str) -> Parsed<bool> {
        let found = self.token == Token::Word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// One of `all` by name.
    pub(super) fn choice<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Parsed<T> {
        if let Token::Word(word) = self.token
            && let Some(&found) = all.iter().find(|&&op| name(op) == word)
        {
            self.advance()?;
            return Ok(found);
        }
        let names: Vec<String> = all.iter().map(|&op| format!("`{}`", name(op))).collect();
        Err(self.expected(&format!("one of {}", names.join(", "))))
    }
}
