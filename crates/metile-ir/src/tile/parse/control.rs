//! Regions, loops, branches and the operations that end a region.

use super::lexer::{Token, described};
use super::{MAX_NESTING, MAX_OPS, Name, Parsed, Parser};
use crate::dtype::DType;
use crate::span::Span;
use crate::tile::infer::op_name;
use crate::tile::{Definition, Op, OpId, OpKind, Region, RegionId, TileType, Type, Value};

/// A region argument and its first value.
type Carried<'t> = (Name<'t>, Value);

/// An operation before it is made.
pub(super) struct Draft {
    pub(super) kind: OpKind,
    pub(super) operands: Vec<Value>,
    pub(super) types: Vec<Type>,
    pub(super) regions: Vec<RegionId>,
    pub(super) span: Option<Span>,
}

impl<'t> Parser<'t> {
    /// `{`, operations up to one that is `end`, and `}`. The names from `shown` on, the region's
    /// arguments included, are not visible afterwards.
    pub(super) fn region(&mut self, id: RegionId, end: &OpKind, shown: usize) -> Parsed<()> {
        let opened = self.start;
        self.mark('{')?;
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self
                .fail(opened, format!("regions nest more than {MAX_NESTING} deep"))
                .into());
        }
        loop {
            let start = self.start;
            if matches!(self.token, Token::End | Token::Mark('}')) {
                return Err(self.unended(opened, end));
            }
            let op = self.operation()?;
            self.kernel.regions[id].ops.push(op);
            let kind = &self.kernel.ops[op].kind;
            if kind == end {
                break;
            }
            if kind.is_terminator() {
                let (found, wanted) = (op_name(kind), op_name(end));
                let message = format!("this region ends in `{wanted}`, not in `{found}`");
                return Err(self.fail(start, message).into());
            }
        }
        if self.token != Token::Mark('}') {
            return Err(self.expected(&format!("`}}` after `{}`", op_name(end))));
        }
        self.advance()?;
        self.depth -= 1;
        for (name, offset) in self.shown.drain(shown..) {
            self.visible.remove(name);
            self.hidden.insert(name, offset);
        }
        Ok(())
    }

    fn unended(&self, opened: usize, end: &OpKind) -> Box<crate::Diagnostic> {
        let (end, found) = (op_name(end), described(self.token));
        let message = format!("expected an operation, found {found}");
        let mut error = self.fail(self.start, message).hint(format!("this region ends in `{end}`"));
        error.related.push((self.span(opened), "the region begins here".to_owned()));
        Box::new(error)
    }

    /// An operation with its results.
    pub(super) fn operation(&mut self) -> Parsed<OpId> {
        let mut names: Vec<Name<'t>> = Vec::new();
        if matches!(self.token, Token::Value(_)) {
            loop {
                self.room(names.len())?;
                names.push(self.new_name()?);
                if self.eat('=')? {
                    break;
                }
                if !self.eat(',')? {
                    return Err(self.expected("`,` or `=`"));
                }
            }
        }
        let Token::Word(word) = self.token else {
            return Err(self.expected("the name of an operation"));
        };
        let start = self.start;
        self.advance()?;
        let draft = match word {
            "for" => self.for_loop(&names)?,
            "while" => self.while_loop(&names)?,
            "if" => self.branch(&names)?,
            _ => self.simple(word, start, &names)?,
        };
        if self.kernel.ops.len() >= MAX_OPS {
            let message = format!("a kernel has at most {MAX_OPS} operations");
            return Err(self.fail(start, message).into());
        }
        let Draft { kind, operands, types, regions, span } = draft;
        let op = self.kernel.ops.push(Op { kind, operands, results: Vec::new(), regions, span });
        for (n, (name, ty)) in names.into_iter().zip(types).enumerate() {
            let value = self.define(name, ty, Definition::Result(op, n as u32))?;
            self.kernel.ops[op].results.push(value);
        }
        Ok(op)
    }

    fn for_loop(&mut self, names: &[Name<'t>]) -> Parsed<Draft> {
        let index = self.new_name()?;
        let mut operands = Vec::new();
        self.mark('=')?;
        operands.push(self.value()?);
        self.word("to")?;
        operands.push(self.value()?);
        self.word("step")?;
        operands.push(self.value()?);
        let carried = self.carried()?;
        let types = self.result_types("for", names, Some(carried.len()))?;
        let span = self.location()?;
        let body = self.kernel.regions.push(Region::default());
        let shown = self.shown.len();
        self.argument(body, index, Type::Tile(TileType::scalar(DType::I64)))?;
        operands.extend(self.enter(body, carried, &types)?);
        self.region(body, &OpKind::Yield, shown)?;
        Ok(Draft { kind: OpKind::For, operands, types, regions: vec![body], span })
    }

    fn while_loop(&mut self, names: &[Name<'t>]) -> Parsed<Draft> {
        let carried = self.carried()?;
        let types = self.result_types("while", names, Some(carried.len()))?;
        let span = self.location()?;
        let test = self.kernel.regions.push(Region::default());
        let shown = self.shown.len();
        let operands = self.enter(test, carried, &types)?;
        self.region(test, &OpKind::Condition, shown)?;
        self.word("do")?;
        let body = self.kernel.regions.push(Region::default());
        if self.eat('(')? {
            for (name, ty) in self.list(')', |p| p.typed_name())? {
                self.argument(body, name, ty)?;
            }
        }
        self.region(body, &OpKind::Yield, shown)?;
        Ok(Draft { kind: OpKind::While, operands, types, regions: vec![test, body], span })
    }

    fn branch(&mut self, names: &[Name<'t>]) -> Parsed<Draft> {
        let operands = vec![self.value()?];
        let types = self.result_types("if", names, None)?;
        let span = self.location()?;
        let shown = self.shown.len();
        let yes = self.kernel.regions.push(Region::default());
        self.region(yes, &OpKind::Yield, shown)?;
        self.word("else")?;
        let no = self.kernel.regions.push(Region::default());
        self.region(no, &OpKind::Yield, shown)?;
        Ok(Draft { kind: OpKind::If, operands, types, regions: vec![yes, no], span })
    }

    /// `(%a = %init, …)`, or nothing.
    fn carried(&mut self) -> Parsed<Vec<Carried<'t>>> {
        if !self.eat('(')? {
            return Ok(Vec::new());
        }
        self.list(')', |p| {
            let name = p.new_name()?;
            p.mark('=')?;
            Ok((name, p.value()?))
        })
    }

    /// `-> (f32, i64)`, or nothing; as many as names, and as values carried.
    fn result_types(
        &mut self,
        op: &str,
        names: &[Name<'t>],
        carried: Option<usize>,
    ) -> Parsed<Vec<Type>> {
        let start = self.start;
        let mut types = Vec::new();
        if self.token == Token::Arrow {
            self.advance()?;
            self.mark('(')?;
            types = self.list(')', |p| p.ty())?;
        }
        if let Some(carried) = carried.filter(|&c| c != types.len()) {
            let message =
                format!("`{op}` carries {}, but gives {}", values(carried), values(types.len()));
            return Err(self.fail(start, message).hint("each value carried is a result").into());
        }
        self.same_count(op, names, types.len(), start)?;
        Ok(types)
    }

    /// Refuses names that are not as many as results.
    pub(super) fn same_count(
        &self,
        op: &str,
        names: &[Name<'t>],
        results: usize,
        start: usize,
    ) -> Parsed<()> {
        if names.len() == results {
            return Ok(());
        }
        let offset = names.first().map_or(start, |n| n.1);
        let message =
            format!("`{op}` gives {}, but {} named here", values(results), are(names.len()));
        Err(self.fail(offset, message).into())
    }

    /// Makes the arguments of a region; returns their first values.
    fn enter(
        &mut self,
        region: RegionId,
        carried: Vec<Carried<'t>>,
        types: &[Type],
    ) -> Parsed<Vec<Value>> {
        let mut init = Vec::new();
        for ((name, first), &ty) in carried.into_iter().zip(types) {
            self.argument(region, name, ty)?;
            init.push(first);
        }
        Ok(init)
    }

    fn argument(&mut self, region: RegionId, name: Name<'t>, ty: Type) -> Parsed<()> {
        let n = self.kernel.regions[region].arguments.len() as u32;
        let value = self.define(name, ty, Definition::Argument(region, n))?;
        self.kernel.regions[region].arguments.push(value);
        Ok(())
    }

    /// `@file:line:column`, or nothing.
    pub(super) fn location(&mut self) -> Parsed<Option<Span>> {
        if !self.eat('@')? {
            return Ok(None);
        }
        let most = u64::from(u32::MAX);
        let file = self.integer("the number of a file", most)? as u32;
        self.mark(':')?;
        let line = self.integer("a line", most)? as u32;
        self.mark(':')?;
        let column = self.integer("a column", most)? as u32;
        Ok(Some(Span { file, line, column }))
    }
}

fn values(count: usize) -> String {
    match count {
        0 => "no value".to_owned(),
        1 => "1 value".to_owned(),
        n => format!("{n} values"),
    }
}

fn are(count: usize) -> String {
    match count {
        0 => "none is".to_owned(),
        1 => "1 is".to_owned(),
        n => format!("{n} are"),
    }
}
