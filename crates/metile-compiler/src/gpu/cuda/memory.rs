//! Reading and writing memory.

use super::EmitError;
use super::literal::c_type;
use super::printer::{Place, Printer};
use metile_device::{AtomicOp, MemoryOp, Shared, Statement, Type, Value};

/// What is added to the offset of a group, as an expression of the group's number `g`.
pub(super) enum Immediates {
    /// The same for all.
    Same(i64),
    /// `first + g * step`.
    Even(i64, i64),
    /// An entry of a table.
    Table(String),
}

impl Printer<'_> {
    pub(super) fn memory(&mut self, op: &MemoryOp, statement: &Statement) -> Result<(), EmitError> {
        match op {
            MemoryOp::Load { width, immediates, masked, constant } => {
                let access = Access { width: *width, immediates, masked: *masked };
                self.load(&access, *constant, statement)
            }
            MemoryOp::Store { width, immediates, masked } => {
                let access = Access { width: *width, immediates, masked: *masked };
                let [pointer, offset] = [0, 1].map(|n| self.operand(statement, n));
                let (base, offset) = (self.one(pointer?)?, offset?);
                let value = self.operand(statement, if *masked { 3 } else { 2 })?;
                let mask = if *masked { Some(self.operand(statement, 2)?) } else { None };
                self.store(&access, &base, offset, mask, value)
            }
            MemoryOp::LoadShared { buffer, width, immediates } => {
                let access = Access { width: *width, immediates, masked: false };
                self.load_shared(&access, *buffer, statement)
            }
            MemoryOp::StoreShared { buffer, width, immediates, masked } => {
                let access = Access { width: *width, immediates, masked: *masked };
                let offset = self.operand(statement, 0)?;
                let value = self.operand(statement, if *masked { 2 } else { 1 })?;
                let mask = if *masked { Some(self.operand(statement, 1)?) } else { None };
                let base = self.shared(*buffer, self.dtype(value)?)?;
                self.store(&access, &base, offset, mask, value)
            }
            MemoryOp::Atomic(op) => {
                let function = match op {
                    AtomicOp::Add => "atomic_add",
                    AtomicOp::Max => "atomic_max",
                    AtomicOp::Min => "atomic_min",
                    AtomicOp::Exchange => "atomic_exchange",
                };
                self.atomic(function, statement)
            }
            MemoryOp::AtomicCas => self.atomic("atomic_cas", statement),
            MemoryOp::Entry => {
                let [table, index] = [0, 1].map(|n| self.operand(statement, n));
                let (table, index) = (self.one(table?)?, self.one(index?)?);
                let result = self.result(statement)?;
                let Type::Pointer { dtype, writable } = self.program.ty(result) else {
                    return Err(self.malformed("an entry of a table that is no pointer"));
                };
                let ty = format!("{}{}", if writable { "" } else { "const " }, c_type(dtype));
                self.define(result, |_, _| {
                    Ok(format!("metile::global<{ty}>(__ldg({table} + {index}))"))
                })
            }
        }
    }

    fn load(
        &mut self,
        access: &Access<'_>,
        constant: bool,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        let [pointer, offset] = [0, 1].map(|n| self.operand(statement, n));
        let (base, offset) = (self.one(pointer?)?, offset?);
        let result = self.result(statement)?;
        let masked = if access.masked {
            Some((self.operand(statement, 2)?, self.operand(statement, 3)?))
        } else {
            None
        };
        let (ty, width) = (self.c_type(result)?, u32::from(access.width));
        let to = self.target(result, width)?;
        if let Some((_, fill)) = masked {
            self.assign(result, fill)?;
        }
        let immediates = self.immediates(access.immediates);
        self.each_group(access.immediates.len() as u32, |p, g| {
            let (offset, to) = (p.offset(offset, g, &immediates)?, to(g));
            let arguments = format!("{base} + ({offset}), {to}");
            Ok(match masked {
                Some((mask, _)) => {
                    let mask = p.at(mask, g)?;
                    format!("metile::load_if<{ty}, {width}, {constant}>({mask}, {arguments});")
                }
                None => format!("metile::load<{ty}, {width}, {constant}>({arguments});"),
            })
        })
    }

    fn load_shared(
        &mut self,
        access: &Access<'_>,
        buffer: Shared,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        let (offset, result) = (self.operand(statement, 0)?, self.result(statement)?);
        let base = self.shared(buffer, self.dtype(result)?)?;
        let (ty, width) = (self.c_type(result)?, u32::from(access.width));
        let to = self.target(result, width)?;
        let immediates = self.immediates(access.immediates);
        self.each_group(access.immediates.len() as u32, |p, g| {
            let (offset, to) = (p.offset(offset, g, &immediates)?, to(g));
            Ok(format!("metile::load<{ty}, {width}, false>({base} + ({offset}), {to});"))
        })
    }

    /// Declares `result`; gives where its group `g` begins.
    fn target(
        &mut self,
        result: Value,
        width: u32,
    ) -> Result<impl Fn(&str) -> String + use<>, EmitError> {
        let single = self.count(result) == 1;
        let name = self.declare(result)?;
        Ok(move |g: &str| match (single, width) {
            (true, _) => format!("&{name}"),
            (false, 1) => format!("{name} + {g}"),
            (false, _) => format!("{name} + {width} * {g}"),
        })
    }

    fn store(
        &mut self,
        access: &Access<'_>,
        base: &str,
        offset: Value,
        mask: Option<Value>,
        value: Value,
    ) -> Result<(), EmitError> {
        let (ty, width) = (self.c_type(value)?, u32::from(access.width));
        let array = match self.place(value)? {
            Place::Array(name) => Some(name.clone()),
            Place::Single(_) => None,
        };
        let immediates = self.immediates(access.immediates);
        self.each_group(access.immediates.len() as u32, |p, g| {
            let offset = p.offset(offset, g, &immediates)?;
            let condition = match mask {
                Some(mask) => format!("if ({}) ", p.at(mask, g)?),
                None => String::new(),
            };
            let from = match array {
                Some(ref name) if width == 1 => format!("{name} + {g}"),
                Some(ref name) => format!("{name} + {width} * {g}"),
                None => p.one(value)?,
            };
            let function = if array.is_some() { "store" } else { "store_all" };
            Ok(format!(
                "{condition}metile::{function}<{ty}, {width}>({base} + ({offset}), {from});"
            ))
        })
    }

    fn atomic(&mut self, function: &str, statement: &Statement) -> Result<(), EmitError> {
        let [pointer, offset, mask] = [0, 1, 2].map(|n| self.operand(statement, n));
        let (base, offset, mask) = (self.one(pointer?)?, offset?, mask?);
        let result = self.result(statement)?;
        let values = statement.operands.get(3..).unwrap_or_default();
        if values.len() != if function == "atomic_cas" { 2 } else { 1 } {
            return Err(self.malformed("an atomic operation with other than its operands"));
        }
        let (ty, count) = (self.c_type(result)?, self.count(result));
        let name = self.declare(result)?;
        self.each_group(count, |p, g| {
            let mut arguments = format!("{base} + {}", p.at(offset, g)?);
            for &value in values {
                arguments.push_str(", ");
                arguments.push_str(&p.at(value, g)?);
            }
            let to = if count == 1 { name.clone() } else { format!("{name}[{g}]") };
            let mask = p.at(mask, g)?;
            Ok(format!("{to} = {mask} ? metile::{function}<{ty}>({arguments}) : {ty}(0);"))
        })
    }

    /// Prints a statement for each of `count` groups.
    pub(super) fn each_group(
        &mut self,
        count: u32,
        statement: impl Fn(&Self, &str) -> Result<String, EmitError>,
    ) -> Result<(), EmitError> {
        if count == 1 {
            let text = statement(self, "0")?;
            self.line(text);
            return Ok(());
        }
        let text = statement(self, "g")?;
        self.unrolled("g", count);
        self.indented(|p| p.line(text));
        Ok(())
    }

    /// What is added to each group's offset.
    pub(super) fn immediates(&mut self, immediates: &[i64]) -> Immediates {
        let first = immediates.first().copied().unwrap_or(0);
        if immediates.iter().all(|&i| i == first) {
            return Immediates::Same(first);
        }
        let step = immediates[1].wrapping_sub(first);
        if immediates.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step) {
            return Immediates::Even(first, step);
        }
        let table = self.namer.name("immediate");
        let list: Vec<String> = immediates.iter().map(|i| format!("{i}")).collect();
        self.line(format_args!("constexpr i64 {table}[{}] = {{{}}};", list.len(), list.join(", ")));
        Immediates::Table(table)
    }

    /// The offset of group `g`, in elements.
    pub(super) fn offset(
        &self,
        offset: Value,
        g: &str,
        immediates: &Immediates,
    ) -> Result<String, EmitError> {
        let offset = self.at(offset, g)?;
        Ok(match immediates {
            Immediates::Same(0) => offset,
            Immediates::Same(n) => format!("i64({offset}) + {n}"),
            Immediates::Even(0, step) => format!("i64({offset}) + {g} * {step}"),
            Immediates::Even(first, step) => format!("i64({offset}) + {first} + {g} * {step}"),
            Immediates::Table(table) => format!("i64({offset}) + {table}[{g}]"),
        })
    }
}

/// How an access goes through memory.
struct Access<'s> {
    width: u8,
    immediates: &'s [i64],
    masked: bool,
}
