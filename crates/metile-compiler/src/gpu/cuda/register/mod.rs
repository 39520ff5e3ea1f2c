//! Arithmetic and moves within a thread.

mod expression;
#[cfg(test)]
mod host_test;

use super::EmitError;
use super::literal::{c_type, literal};
use super::printer::{Place, Printer};
use expression::{binary, bitcast, cast, compare, unary};
use metile_device::{RegisterOp, Statement, Value};
use metile_ir::scalar::Scalar;

/// Moves up to which each is a statement; beyond it they go through a table.
const LISTED: usize = 256;

impl Printer<'_> {
    pub(super) fn register(
        &mut self,
        op: &RegisterOp,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        let result = self.result(statement)?;
        match op {
            RegisterOp::Constant(scalars) => self.constant(result, scalars),
            RegisterOp::Unary(op) => {
                let a = self.operand(statement, 0)?;
                let dtype = self.dtype(a)?;
                self.define(result, |p, i| Ok(unary(*op, dtype, &p.at(a, i)?)))
            }
            RegisterOp::Binary(op) => {
                let (a, b) = (self.operand(statement, 0)?, self.operand(statement, 1)?);
                let dtype = self.dtype(a)?;
                self.define(result, |p, i| Ok(binary(*op, dtype, &p.at(a, i)?, &p.at(b, i)?)))
            }
            RegisterOp::Compare(op) => {
                let (a, b) = (self.operand(statement, 0)?, self.operand(statement, 1)?);
                let sign = compare(*op);
                self.define(result, |p, i| Ok(format!("{} {sign} {}", p.at(a, i)?, p.at(b, i)?)))
            }
            RegisterOp::Select => {
                let [c, a, b] = self.three(statement)?;
                self.define(result, |p, i| {
                    Ok(format!("{} ? {} : {}", p.at(c, i)?, p.at(a, i)?, p.at(b, i)?))
                })
            }
            RegisterOp::Fma => {
                let [a, b, c] = self.three(statement)?;
                self.define(result, |p, i| {
                    Ok(format!("fmaf({}, {}, {})", p.at(a, i)?, p.at(b, i)?, p.at(c, i)?))
                })
            }
            RegisterOp::Cast => {
                let a = self.operand(statement, 0)?;
                let (from, to) = (self.dtype(a)?, self.dtype(result)?);
                self.define(result, |p, i| Ok(cast(from, to, &p.at(a, i)?)))
            }
            RegisterOp::Bitcast => {
                let a = self.operand(statement, 0)?;
                let (from, to) = (self.dtype(a)?, self.dtype(result)?);
                self.define(result, |p, i| Ok(bitcast(from, to, &p.at(a, i)?)))
            }
            RegisterOp::Uniform => {
                let place = self.place(self.operand(statement, 0)?)?.clone();
                self.set_place(result, place);
                Ok(())
            }
            RegisterOp::Pick(from) => self.pick(result, self.operand(statement, 0)?, from),
            RegisterOp::Join => self.join(result, &statement.operands),
            RegisterOp::Pack => self.pack(result, self.operand(statement, 0)?),
        }
    }

    fn three(&self, statement: &Statement) -> Result<[Value; 3], EmitError> {
        Ok([self.operand(statement, 0)?, self.operand(statement, 1)?, self.operand(statement, 2)?])
    }

    fn constant(&mut self, result: Value, scalars: &[Scalar]) -> Result<(), EmitError> {
        let Some(&first) = scalars.first() else {
            return Err(self.malformed("a constant of no registers"));
        };
        if scalars.iter().all(|&s| s == first) {
            self.set_constant(result, first);
            return Ok(());
        }
        if let Some((start, step)) = progression(scalars) {
            let dtype = first.dtype();
            return self.define(result, |_, i| {
                let (start, ty) = (literal(Scalar::int(dtype, start.into())), c_type(dtype));
                Ok(format!("{start} + {ty}({i}) * {}", literal(Scalar::int(dtype, step.into()))))
            });
        }
        let (ty, name) = (self.c_type(result)?, self.name(result));
        let list: Vec<String> = scalars.iter().map(|&s| literal(s)).collect();
        self.line(format_args!("const {ty} {name}[{}] = {{{}}};", list.len(), list.join(", ")));
        self.set_place(result, Place::Array(name));
        Ok(())
    }

    fn pick(&mut self, result: Value, a: Value, from: &[u32]) -> Result<(), EmitError> {
        let place = self.place(a)?.clone();
        let Place::Array(source) = place else {
            // One register stands for all.
            if let Some(scalar) = self.known(a) {
                self.set_constant(result, scalar);
            } else {
                self.set_place(result, place);
            }
            return Ok(());
        };
        let Some(&first) = from.first() else {
            return Err(self.malformed("a pick of no registers"));
        };
        if from.iter().all(|&f| f == first) {
            self.set_place(result, Place::Single(format!("{source}[{first}]")));
            return Ok(());
        }
        if let Some(step) = even_steps(from) {
            return self.define(result, |_, i| Ok(format!("{source}[{first} + {i} * {step}]")));
        }
        let name = self.declare(result)?;
        if from.len() <= LISTED {
            for (row, chunk) in from.chunks(8).enumerate() {
                let moves: Vec<String> = chunk
                    .iter()
                    .enumerate()
                    .map(|(n, f)| format!("{name}[{}] = {source}[{f}];", row * 8 + n))
                    .collect();
                self.line(moves.join(" "));
            }
            return Ok(());
        }
        let table = self.namer.name("from");
        let list: Vec<String> = from.iter().map(u32::to_string).collect();
        self.line(format_args!("constexpr int {table}[{}] = {{{}}};", list.len(), list.join(", ")));
        self.unrolled("i", from.len() as u32);
        self.indented(|p| p.line(format_args!("{name}[i] = {source}[{table}[i]];")));
        Ok(())
    }

    fn join(&mut self, result: Value, parts: &[Value]) -> Result<(), EmitError> {
        let name = self.declare(result)?;
        let mut first = 0;
        for &part in parts {
            let count = self.count(part);
            if count == 1 {
                let text = self.one(part)?;
                self.line(format_args!("{name}[{first}] = {text};"));
            } else {
                let text = self.at(part, "i")?;
                self.unrolled("i", count);
                self.indented(|p| p.line(format_args!("{name}[{first} + i] = {text};")));
            }
            first += count;
        }
        Ok(())
    }

    /// Between pairs of 16-bit elements and words.
    fn pack(&mut self, result: Value, a: Value) -> Result<(), EmitError> {
        let to = self.dtype(result)?;
        if to.bytes() == 2 {
            let ty = c_type(to);
            return self.define(result, |p, i| {
                Ok(format!("{ty}({} >> ({i} % 2 * 16))", p.at(a, format_args!("{i} / 2"))?))
            });
        }
        self.define(result, |p, i| {
            let low = p.at(a, format_args!("2 * {i}"))?;
            let high = p.at(a, format_args!("2 * {i} + 1"))?;
            Ok(format!("u32({low}) | u32({high}) << 16"))
        })
    }
}

/// `start` and `step` of integers that go up or down evenly, if none of them wraps.
fn progression(scalars: &[Scalar]) -> Option<(i64, i64)> {
    let ints: Option<Vec<i64>> = scalars
        .iter()
        .map(|s| s.as_int().filter(|_| s.dtype().is_int()).and_then(|v| i64::try_from(v).ok()))
        .collect();
    let ints = ints?;
    let [first, second, ..] = ints[..] else { return None };
    let step = second.checked_sub(first)?;
    let even = ints.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    // Of small ones only, so that no product of the loop's index can wrap.
    (even && first.abs().max(step.abs()) < 1 << 30 && scalars[0].dtype().bits() >= 32)
        .then_some((first, step))
}

/// The distance of one number to the next, if it is the same everywhere.
fn even_steps(from: &[u32]) -> Option<i64> {
    let [first, second, ..] = from[..] else { return None };
    let step = i64::from(second) - i64::from(first);
    let even = from.windows(2).all(|pair| i64::from(pair[1]) - i64::from(pair[0]) == step);
    even.then_some(step)
}
