//! Loops and branches. What a loop carries is a variable, which arguments and results share.

use super::EmitError;
use super::literal::literal;
use super::printer::{Place, Printer};
use metile_device::{Block, ControlOp, Op, Statement, Type, Value};
use metile_ir::scalar::Scalar;

/// Iterations that are spelled out of a loop whose body is small: more would not fit the instruction cache.
const UNROLLED: u32 = 8;

impl Printer<'_> {
    pub(super) fn control(
        &mut self,
        op: ControlOp,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        match op {
            ControlOp::For { unroll } => self.for_loop(unroll, statement),
            ControlOp::While => self.while_loop(statement),
            ControlOp::If => self.branch(statement),
            ControlOp::Yield | ControlOp::Condition => {
                Err(self.malformed("a terminator within a block"))
            }
        }
    }

    /// Operands of the terminator of `block`.
    fn terminator<'s>(
        &self,
        block: &'s Block,
        wanted: ControlOp,
    ) -> Result<&'s [Value], EmitError> {
        match block.statements.last() {
            Some(last) if last.op == Op::Control(wanted) => Ok(&last.operands),
            _ => Err(self.malformed(format_args!("a block does not end in {wanted:?}"))),
        }
    }

    /// Whether the value is a variable; tokens are not.
    fn is_variable(&self, value: Value) -> bool {
        self.program.ty(value) != Type::Token
    }

    /// Declares variables `results` that begin as `init`.
    fn begin(&mut self, results: &[Value], init: &[Value]) -> Result<(), EmitError> {
        if results.len() != init.len() {
            return Err(self.malformed("a loop that carries other than it begins with"));
        }
        for (&result, &init) in results.iter().zip(init) {
            if self.is_variable(result) {
                self.declare(result)?;
                self.assign(result, init)?;
            }
        }
        Ok(())
    }

    /// `arguments` are the variables of `results`.
    fn share(&mut self, arguments: &[Value], results: &[Value]) -> Result<(), EmitError> {
        if arguments.len() != results.len() {
            return Err(self.malformed("a block with other arguments than its loop carries"));
        }
        for (&argument, &result) in arguments.iter().zip(results) {
            if self.is_variable(result) {
                let place = self.place(result)?.clone();
                self.set_place(argument, place);
            }
        }
        Ok(())
    }

    /// Assigns all of `values` to the variables `to` at once.
    fn assign_all(&mut self, to: &[Value], values: &[Value]) -> Result<(), EmitError> {
        if to.len() != values.len() {
            return Err(self.malformed("a block gives other than is carried"));
        }
        let pairs: Vec<(Value, Value)> = to
            .iter()
            .copied()
            .zip(values.iter().copied())
            .filter(|p| self.is_variable(p.0))
            .collect();
        let mut changed = Vec::new();
        for &(to, value) in &pairs {
            let (Place::Single(name) | Place::Array(name)) = self.place(to)?.clone();
            if self.place(value)? != self.place(to)? {
                changed.push(name);
            }
        }
        // A value that is a variable assigned here, or a register of one, is kept before it changes.
        let mut kept = Vec::new();
        for &(to, value) in &pairs {
            let place = self.place(value)?.clone();
            let (Place::Single(text) | Place::Array(text)) = &place;
            let root = text.split('[').next().unwrap_or_default();
            if place == *self.place(to)? || !changed.iter().any(|name| name == root) {
                continue;
            }
            self.define(value, |p, i| p.at(value, i))?;
            kept.push((value, place));
        }
        for (to, value) in pairs {
            self.assign(to, value)?;
        }
        for (value, place) in kept {
            self.set_place(value, place);
        }
        Ok(())
    }

    fn for_loop(&mut self, unroll: bool, statement: &Statement) -> Result<(), EmitError> {
        let [low, high, step] = [0, 1, 2].map(|n| self.operand(statement, n));
        let (low, high, step) = (low?, high?, step?);
        let init = statement.operands.get(3..).unwrap_or_default();
        self.begin(&statement.results, init)?;
        let block = self.block(statement, 0)?;
        let Some((&index, carried)) = block.arguments.split_first() else {
            return Err(self.malformed("a loop without an index"));
        };
        self.share(carried, &statement.results)?;
        let ty = self.c_type(index)?;
        let name = self.name(index);
        self.set_place(index, Place::Single(name.clone()));
        let end = self.terminator(block, ControlOp::Yield)?;
        if unroll {
            self.line(format_args!("#pragma unroll {UNROLLED}"));
        }
        let ends = [low, high, step].map(|v| self.known(v));
        if let Some([low, high, step]) = plain_ends(ends) {
            let [low, high, step] = [low, high, step].map(literal);
            self.line(format_args!(
                "for ({ty} {name} = {low}; {name} < {high}; {name} += {step}) {{"
            ));
            self.nested(block)?;
            return self.close_loop(&statement.results, end, None);
        }
        // The distance to the end as an unsigned number, so that the index can't overflow.
        let unsigned = if ty == "i64" { "u64" } else { "u32" };
        let (low, high) = (self.one(low)?, self.one(high)?);
        let step = match self.known(step).and_then(Scalar::as_int) {
            Some(n) => literal(Scalar::int(self.dtype(index)?, n.max(1))),
            None => {
                let given = self.one(step)?;
                let step = self.namer.name("step");
                self.line(format_args!("const {ty} {step} = metile::max({given}, {ty}(1));"));
                step
            }
        };
        self.line(format_args!(
            "if ({low} < {high}) for ({ty} {name} = {low};; {name} += {step}) {{"
        ));
        self.nested(block)?;
        let leave =
            format!("if ({unsigned}({high}) - {unsigned}({name}) <= {unsigned}({step})) break;");
        self.close_loop(&statement.results, end, Some(leave))
    }

    fn close_loop(
        &mut self,
        results: &[Value],
        end: &[Value],
        leave: Option<String>,
    ) -> Result<(), EmitError> {
        let mut done = Ok(());
        self.indented(|p| {
            done = p.assign_all(results, end);
            if let Some(leave) = leave {
                p.line(leave);
            }
        });
        self.line("}");
        done
    }

    fn while_loop(&mut self, statement: &Statement) -> Result<(), EmitError> {
        let (before, after) = (self.block(statement, 0)?, self.block(statement, 1)?);
        // What enters the first block, and what leaves it: two sets of variables.
        self.begin(&before.arguments, &statement.operands)?;
        for &result in &statement.results {
            if self.is_variable(result) {
                self.declare(result)?;
            }
        }
        self.share(&after.arguments, &statement.results)?;
        self.line("for (;;) {");
        self.nested(before)?;
        let Some((&condition, given)) =
            self.terminator(before, ControlOp::Condition)?.split_first()
        else {
            return Err(self.malformed("a condition without one"));
        };
        let end = self.terminator(after, ControlOp::Yield)?;
        let condition = self.one(condition)?;
        let mut done = Ok(());
        self.indented(|p| {
            done = p.assign_all(&statement.results, given);
            p.line(format_args!("if (!({condition})) break;"));
        });
        done?;
        self.nested(after)?;
        self.close_loop(&before.arguments, end, None)
    }

    fn branch(&mut self, statement: &Statement) -> Result<(), EmitError> {
        let condition = self.one(self.operand(statement, 0)?)?;
        for &result in &statement.results {
            if self.is_variable(result) {
                self.declare(result)?;
            }
        }
        for (n, head) in [(0, format!("if ({condition}) {{")), (1, "} else {".to_owned())] {
            let block = self.block(statement, n)?;
            let end = self.terminator(block, ControlOp::Yield)?;
            let empty = block.statements.len() == 1 && end.is_empty();
            if n == 1 && empty {
                break;
            }
            self.line(head);
            self.nested(block)?;
            let mut done = Ok(());
            self.indented(|p| done = p.assign_all(&statement.results, end));
            done?;
        }
        self.line("}");
        Ok(())
    }
}

/// Known ends of a loop whose index stays far from its dtype's limits.
fn plain_ends(ends: [Option<Scalar>; 3]) -> Option<[Scalar; 3]> {
    let [Some(low), Some(high), Some(step)] = ends else { return None };
    let small = |s: Scalar| s.as_int().is_some_and(|v| v.abs() < 1 << 30);
    let steps = step.as_int().is_some_and(|v| v >= 1);
    (steps && [low, high, step].into_iter().all(small)).then_some([low, high, step])
}
