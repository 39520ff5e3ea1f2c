//! Whether two kernels are the same program.
//!
//! Two kernels are the same if they have the same name, header, parameters and operations in the same
//! order, each taking the same values. Numbers and names of values, entries of the arenas that
//! nothing uses, and the places operations were written at do not matter.

use super::infer::op_name;
use super::verify::MAX_NESTING;
use super::{Kernel, Op, OpId, RegionId, Type, Value};
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// Whether `a` and `b` are the same program; spans and files do not matter.
///
/// # Errors
/// The first difference, in words, or that a kernel is malformed.
pub fn same_program(a: &Kernel, b: &Kernel) -> Result<(), String> {
    Pair::new(a, b, false).kernels()
}

/// Whether `a` and `b` are the same program, written at the same places of files of the same names.
/// The texts of the files do not matter.
///
/// # Errors
/// The first difference, in words, or that a kernel is malformed.
pub fn same_program_with_locations(a: &Kernel, b: &Kernel) -> Result<(), String> {
    Pair::new(a, b, true).kernels()
}

/// Two kernels walked side by side.
struct Pair<'k> {
    a: &'k Kernel,
    b: &'k Kernel,
    locations: bool,
    /// The value of `b` that stands where the value of `a` does.
    partner: HashMap<Value, Value>,
    taken: HashSet<Value>,
    regions: HashSet<RegionId>,
    /// The operations around the current place, outermost first.
    path: Vec<Step>,
}

/// An operation on the way to the current place.
struct Step {
    /// Which one of its region.
    op: usize,
    name: &'static str,
    /// Which of its regions the next step is in.
    region: usize,
}

impl<'k> Pair<'k> {
    fn new(a: &'k Kernel, b: &'k Kernel, locations: bool) -> Pair<'k> {
        Pair {
            a,
            b,
            locations,
            partner: HashMap::new(),
            taken: HashSet::new(),
            regions: HashSet::new(),
            path: Vec::new(),
        }
    }

    fn kernels(mut self) -> Result<(), String> {
        let (a, b) = (self.a, self.b);
        self.equal("the name of the kernel", &a.name, &b.name)?;
        self.equal("`persistent`", a.persistent, b.persistent)?;
        if a.precision != b.precision {
            return Err(format!("the precision is {:?} against {:?}", a.precision, b.precision));
        }
        if self.locations {
            self.equal("the number of files", a.files.len(), b.files.len())?;
            for (n, (x, y)) in a.files.iter().zip(&b.files).enumerate() {
                self.equal(&format!("the name of file {n}"), &x.name, &y.name)?;
            }
        }
        self.define("parameter", &a.parameters, &b.parameters)?;
        self.region(a.body, b.body)
    }

    fn region(&mut self, x: RegionId, y: RegionId) -> Result<(), String> {
        if !self.a.regions.contains(x) || !self.b.regions.contains(y) {
            return self.differ("a region is missing from the kernel".to_owned());
        }
        if self.path.len() >= MAX_NESTING {
            return self.differ(format!("regions nest more than {MAX_NESTING} deep"));
        }
        // A region that holds itself would be walked for ever.
        if !self.regions.insert(x) {
            return self.differ("a region is used twice".to_owned());
        }
        let (x, y) = (&self.a.regions[x], &self.b.regions[y]);
        self.define("argument", &x.arguments, &y.arguments)?;
        for (n, (&p, &q)) in x.ops.iter().zip(&y.ops).enumerate() {
            self.op(n, p, q)?;
        }
        if x.ops.len() == y.ops.len() {
            return Ok(());
        }
        self.differ(format!("the region has {} operations against {}", x.ops.len(), y.ops.len()))
    }

    fn op(&mut self, n: usize, p: OpId, q: OpId) -> Result<(), String> {
        if !self.a.ops.contains(p) || !self.b.ops.contains(q) {
            return self.differ(format!("operation {n} is missing from the kernel"));
        }
        let (p, q) = (&self.a.ops[p], &self.b.ops[q]);
        self.path.push(Step { op: n, name: op_name(&p.kind), region: 0 });
        if p.kind != q.kind {
            let (x, y) = (op_name(&p.kind), op_name(&q.kind));
            return self.differ(if x == y {
                format!("{:?} against {:?}", p.kind, q.kind)
            } else {
                format!("`{x}` against `{y}`")
            });
        }
        self.operands(p, q)?;
        if self.locations && p.span != q.span {
            return self.differ(format!("written at {:?} against {:?}", p.span, q.span));
        }
        self.equal("the number of regions", p.regions.len(), q.regions.len())?;
        for (r, (&x, &y)) in p.regions.iter().zip(&q.regions).enumerate() {
            if let Some(step) = self.path.last_mut() {
                step.region = r;
            }
            self.region(x, y)?;
        }
        self.define("result", &p.results, &q.results)?;
        self.path.pop();
        Ok(())
    }

    fn operands(&self, p: &Op, q: &Op) -> Result<(), String> {
        self.equal("the number of operands", p.operands.len(), q.operands.len())?;
        for (n, (x, &y)) in p.operands.iter().zip(&q.operands).enumerate() {
            match self.partner.get(x) {
                Some(&partner) if partner == y => {}
                Some(_) => {
                    let (x, y) = (described(self.a, *x), described(self.b, y));
                    return self.differ(format!("operand {n} is {x} against {y}, another value"));
                }
                None => {
                    let x = described(self.a, *x);
                    return self.differ(format!("operand {n} is {x}, which is not defined before"));
                }
            }
        }
        Ok(())
    }

    /// Notes that the values `xs` of `a` stand where `ys` of `b` do.
    fn define(&mut self, what: &str, xs: &[Value], ys: &[Value]) -> Result<(), String> {
        self.equal(&format!("the number of {what}s"), xs.len(), ys.len())?;
        for (n, (&x, &y)) in xs.iter().zip(ys).enumerate() {
            if !self.a.values.contains(x) || !self.b.values.contains(y) {
                return self.differ(format!("{what} {n} is missing from the kernel"));
            }
            let types: (Type, Type) = (self.a.ty(x), self.b.ty(y));
            if types.0 != types.1 {
                let (p, q) = (types.0, types.1);
                return self.differ(if p.to_string() == q.to_string() {
                    format!("the type of {what} {n} is {p:?} against {q:?}")
                } else {
                    format!("the type of {what} {n} is {p} against {q}")
                });
            }
            if self.partner.insert(x, y).is_some() || !self.taken.insert(y) {
                return self.differ(format!("{what} {n} is defined twice"));
            }
        }
        Ok(())
    }

    fn equal<T: PartialEq + Display>(&self, what: &str, x: T, y: T) -> Result<(), String> {
        if x == y {
            return Ok(());
        }
        self.differ(format!("{what} is {x} against {y}"))
    }

    fn differ(&self, message: String) -> Result<(), String> {
        let mut place = String::new();
        let mut parent = None;
        for step in &self.path {
            if let Some(region) = parent.replace(step.region) {
                place.push_str(&format!(", region {region}, "));
            }
            place.push_str(&format!("operation {} (`{}`)", step.op, step.name));
        }
        if !place.is_empty() {
            place.push_str(": ");
        }
        Err(format!("{place}{message}"))
    }
}

/// `%row`, or `value #3` for a value without a name.
fn described(kernel: &Kernel, value: Value) -> String {
    let named = Some(value).filter(|&v| kernel.values.contains(v));
    match named.and_then(|v| kernel.values[v].name.as_deref()) {
        Some(name) => format!("%{name}"),
        None => format!("value {value:?}"),
    }
}
