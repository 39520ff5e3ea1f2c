//! What is known of scalars before a kernel runs: bounds, and what they are multiples of.

use super::class::{Class, MULTIPLE};
use metile_ir::tile::{BinaryOp, Definition, Kernel, OpKind, Value};
use std::collections::HashMap;

/// A scalar's bounds and divisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// No value is below.
    pub low: i64,
    /// No value is above.
    pub high: i64,
    /// Every value is a multiple of this power of two (of all of them, for 0).
    pub multiple: u64,
}

/// What is assumed of extents and of the number of programs on an axis.
const MANY: i64 = 1 << 47;
/// Larger divisors are of no use.
const MAX_MULTIPLE: u64 = 1 << 20;

impl Fact {
    /// Nothing is known.
    pub const UNKNOWN: Fact = Fact { low: i64::MIN, high: i64::MAX, multiple: 1 };

    /// A constant.
    pub fn constant(v: i64) -> Fact {
        Fact { low: v, high: v, multiple: divisor(v) }
    }

    /// Whether no value is negative.
    pub fn is_positive(self) -> bool {
        self.low >= 0
    }

    fn bounded(low: i128, high: i128, multiple: u64) -> Fact {
        match (i64::try_from(low), i64::try_from(high)) {
            (Ok(low), Ok(high)) => Fact { low, high, multiple },
            // It may wrap; powers of two divide it all the same.
            _ => Fact { multiple, ..Fact::UNKNOWN },
        }
    }

    /// Of a sum.
    pub fn plus(self, other: Fact) -> Fact {
        let sum = |a, b| i128::from(a) + i128::from(b);
        let multiple = self.multiple.min(other.multiple);
        Fact::bounded(sum(self.low, other.low), sum(self.high, other.high), multiple)
    }

    fn minus(self, other: Fact) -> Fact {
        let difference = |a, b| i128::from(a) - i128::from(b);
        let multiple = self.multiple.min(other.multiple);
        Fact::bounded(difference(self.low, other.high), difference(self.high, other.low), multiple)
    }

    /// Of a product.
    pub fn times(self, other: Fact) -> Fact {
        let of = |a: i64, b: i64| i128::from(a) * i128::from(b);
        let all = [
            of(self.low, other.low),
            of(self.low, other.high),
            of(self.high, other.low),
            of(self.high, other.high),
        ];
        let multiple = self.multiple.saturating_mul(other.multiple).min(MAX_MULTIPLE);
        let low = all.into_iter().min().unwrap_or(0);
        let high = all.into_iter().max().unwrap_or(0);
        Fact::bounded(low, high, multiple)
    }

    fn union(self, other: Fact) -> Fact {
        Fact {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            multiple: self.multiple.min(other.multiple),
        }
    }
}

/// The largest power of two that divides `v`, up to a limit.
pub fn divisor(v: i64) -> u64 {
    if v == 0 { MAX_MULTIPLE } else { (1u64 << v.trailing_zeros().min(20)).min(MAX_MULTIPLE) }
}

/// Facts of a kernel's scalars, found as they are asked for.
#[derive(Debug)]
pub struct Facts<'k> {
    kernel: &'k Kernel,
    classes: &'k [Class],
    known: HashMap<Value, Fact>,
}

impl<'k> Facts<'k> {
    /// Facts of `kernel` for arguments of `classes`.
    pub fn new(kernel: &'k Kernel, classes: &'k [Class]) -> Facts<'k> {
        Facts { kernel, classes, known: HashMap::new() }
    }

    /// What is known of the scalar `value`.
    pub fn of(&mut self, value: Value) -> Fact {
        if let Some(&fact) = self.known.get(&value) {
            return fact;
        }
        // What depends on itself, through a loop, is not known.
        self.known.insert(value, Fact::UNKNOWN);
        let fact = self.find(value);
        self.known.insert(value, fact);
        fact
    }

    fn find(&mut self, value: Value) -> Fact {
        match self.kernel.values[value].definition {
            Definition::Parameter(_) => Fact::UNKNOWN,
            Definition::Argument(region, n) => self.argument(region, n),
            Definition::Result(op, _) => self.result(op),
        }
    }

    /// The index of a loop; carried values are not looked into.
    fn argument(&mut self, region: metile_ir::tile::RegionId, n: u32) -> Fact {
        let is_loop = |&id: &metile_ir::tile::OpId| {
            let op = &self.kernel.ops[id];
            op.kind == OpKind::For && op.regions.contains(&region)
        };
        if n != 0 {
            return Fact::UNKNOWN;
        }
        let Some(id) = self.kernel.walk(self.kernel.body).into_iter().find(is_loop) else {
            return Fact::UNKNOWN;
        };
        let operands = self.kernel.ops[id].operands.clone();
        let (low, high, step) = (self.of(operands[0]), self.of(operands[1]), self.of(operands[2]));
        // A step below 1 counts as 1.
        let step = if step.low >= 1 { step.multiple } else { 1 };
        Fact { low: low.low, high: high.high.max(low.low), multiple: low.multiple.min(step) }
    }

    fn result(&mut self, op: metile_ir::tile::OpId) -> Fact {
        let op = &self.kernel.ops[op];
        let of = |facts: &mut Self, n: usize| facts.of(op.operands[n]);
        match &op.kind {
            OpKind::Constant(c) => match c.as_int().map(i64::try_from) {
                Some(Ok(v)) => Fact::constant(v),
                _ => Fact::UNKNOWN,
            },
            OpKind::ProgramId(_) | OpKind::NumPrograms(_) => {
                Fact { low: 0, high: MANY, multiple: 1 }
            }
            OpKind::Dim { axis } => {
                Fact { low: 0, high: MANY, multiple: self.extent(op.operands[0], *axis as usize) }
            }
            OpKind::Binary(BinaryOp::Add) => of(self, 0).plus(of(self, 1)),
            OpKind::Binary(BinaryOp::Sub) => of(self, 0).minus(of(self, 1)),
            OpKind::Binary(BinaryOp::Mul) => of(self, 0).times(of(self, 1)),
            OpKind::Binary(BinaryOp::Min) => {
                let (a, b) = (of(self, 0), of(self, 1));
                Fact {
                    low: a.low.min(b.low),
                    high: a.high.min(b.high),
                    multiple: a.multiple.min(b.multiple),
                }
            }
            OpKind::Binary(BinaryOp::Max) => {
                let (a, b) = (of(self, 0), of(self, 1));
                Fact {
                    low: a.low.max(b.low),
                    high: a.high.max(b.high),
                    multiple: a.multiple.min(b.multiple),
                }
            }
            OpKind::Binary(BinaryOp::Div) => {
                let (a, b) = (of(self, 0), of(self, 1));
                if a.low >= 0 && b.low >= 0 {
                    Fact { low: 0, high: a.high, multiple: 1 }
                } else {
                    Fact::UNKNOWN
                }
            }
            OpKind::Binary(BinaryOp::Rem) => {
                let (a, b) = (of(self, 0), of(self, 1));
                if a.low >= 0 && b.low >= 0 {
                    Fact { low: 0, high: a.high, multiple: 1 }
                } else {
                    Fact::UNKNOWN
                }
            }
            OpKind::Select => of(self, 1).union(of(self, 2)),
            _ => Fact::UNKNOWN,
        }
    }

    /// What the extent of a view's axis is a multiple of.
    fn extent(&mut self, view: Value, axis: usize) -> u64 {
        match self.kernel.values[view].definition {
            Definition::Parameter(n) => {
                let round =
                    self.classes.get(n as usize).is_some_and(|c| c.extents >> axis & 1 == 1);
                if round { MULTIPLE } else { 1 }
            }
            Definition::Result(op, _) => {
                let op = &self.kernel.ops[op];
                match op.kind {
                    OpKind::Narrow { axis: cut } if cut as usize != axis => {
                        self.extent(op.operands[0], axis)
                    }
                    OpKind::Narrow { .. } => {
                        let whole = self.extent(op.operands[0], axis);
                        let start = self.of(op.operands[1]).multiple;
                        self.of(op.operands[2]).multiple.min(whole).min(start)
                    }
                    OpKind::Pick { axis: gone } => {
                        self.extent(op.operands[0], axis + usize::from(axis >= gone as usize))
                    }
                    OpKind::ListItem => self.extent(op.operands[0], axis),
                    _ => 1,
                }
            }
            Definition::Argument(..) => 1,
        }
    }
}
