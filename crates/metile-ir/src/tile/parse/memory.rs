//! Operations on memory, between programs, for people, and the ends of regions.

use super::lexer::Token;
use super::operations::Simple;
use super::{Parsed, Parser};
use crate::tile::print::atomic_name;
use crate::tile::{AtomicOp, OpKind, Value};

const ATOMIC: [AtomicOp; 4] = [AtomicOp::Add, AtomicOp::Max, AtomicOp::Min, AtomicOp::Exchange];

impl Parser<'_> {
    pub(super) fn memory_access(&mut self, word: &str) -> Parsed<Option<Simple>> {
        Ok(Some(match word {
            "dim" => {
                let operands = self.operands(1)?;
                self.mark(',')?;
                (OpKind::Dim { axis: self.axis()? }, operands)
            }
            "narrow" => {
                let operands = self.operands(3)?;
                (OpKind::Narrow { axis: self.axis_word()? }, operands)
            }
            "pick" => {
                let operands = self.operands(2)?;
                (OpKind::Pick { axis: self.axis_word()? }, operands)
            }
            "item" => (OpKind::ListItem, self.operands(2)?),
            "load" => {
                let (masked, operands) = self.masked_access()?;
                (OpKind::Load { masked }, operands)
            }
            "store" => {
                let (masked, operands) = self.masked_access()?;
                (OpKind::Store { masked }, operands)
            }
            "load_tile" => (OpKind::LoadTile, self.access(1)?),
            "store_tile" => (OpKind::StoreTile, self.access(1)?),
            "atomic" => {
                let op = self.choice(&ATOMIC, atomic_name)?;
                (OpKind::AtomicRmw(op), self.access(1)?)
            }
            "atomic_cas" => (OpKind::AtomicCas, self.access(2)?),
            _ => return Ok(None),
        }))
    }

    pub(super) fn effect(&mut self, word: &str) -> Parsed<Option<Simple>> {
        Ok(Some(match word {
            "counter_add" => (OpKind::CounterAdd, self.operands(3)?),
            "counter_wait" => (OpKind::CounterWait, self.operands(3)?),
            "grid_barrier" => (OpKind::GridBarrier, Vec::new()),
            "assert" => {
                let operands = self.operands(1)?;
                self.mark(',')?;
                (OpKind::Assert { message: self.string("the message")? }, operands)
            }
            "print" => {
                let format = self.string("the text to print")?;
                let mut operands = Vec::new();
                self.more_operands(&mut operands)?;
                (OpKind::Print { format }, operands)
            }
            "yield" => {
                let mut operands = Vec::new();
                if matches!(self.token, Token::Value(_)) {
                    operands.push(self.value()?);
                    self.more_operands(&mut operands)?;
                }
                (OpKind::Yield, operands)
            }
            "condition" => {
                let mut operands = self.operands(1)?;
                self.more_operands(&mut operands)?;
                (OpKind::Condition, operands)
            }
            "return" => (OpKind::Return, Vec::new()),
            _ => return Ok(None),
        }))
    }

    /// `%t[%i, %j], %v`, with `values` values.
    fn access(&mut self, values: usize) -> Parsed<Vec<Value>> {
        let mut operands = self.place()?;
        for _ in 0..values {
            self.mark(',')?;
            operands.push(self.value()?);
        }
        Ok(operands)
    }

    /// `%t[%i, %j] mask %m, %v`, the mask if there is one.
    fn masked_access(&mut self) -> Parsed<(bool, Vec<Value>)> {
        let mut operands = self.place()?;
        let masked = self.flag("mask")?;
        if masked {
            operands.push(self.value()?);
        }
        self.mark(',')?;
        operands.push(self.value()?);
        Ok((masked, operands))
    }

    /// `%t[%i, %j]`.
    fn place(&mut self) -> Parsed<Vec<Value>> {
        let mut operands = vec![self.value()?];
        self.mark('[')?;
        operands.extend(self.list(']', |p| p.value())?);
        Ok(operands)
    }
}
