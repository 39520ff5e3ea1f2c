//! The CPU form as text, for people.

use super::form::*;
use metile_simd::chain::Second;
use std::fmt;

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "cpu form of {}: {} registers, {} slots in {} bytes of scratch",
            self.name,
            self.regs,
            self.slots.iter().filter(|s| s.1 > 0).count(),
            self.scratch_bytes
        )?;
        for (when, instrs) in [("once:", &self.binding), ("once a launch:", &self.prologue)] {
            if !instrs.is_empty() {
                writeln!(f, "{when}")?;
            }
            for instr in instrs {
                writeln!(f, "       {instr}")?;
            }
        }
        writeln!(f, "for each program:")?;
        for (n, instr) in self.code.iter().enumerate() {
            writeln!(f, "  {n:>3}  {instr}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Instr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instr::Scalar { op, a, b, c, to } => match op {
                ScalarOp::Unary(op, d) => write!(f, "r{to} = {op:?} {d} r{a}"),
                ScalarOp::Binary(op, d) => write!(f, "r{to} = {op:?} {d} r{a}, r{b}"),
                ScalarOp::Compare(op, d) => write!(f, "r{to} = {op:?} {d} r{a}, r{b}"),
                ScalarOp::Select => write!(f, "r{to} = select r{a}, r{b}, r{c}"),
                ScalarOp::Fma => write!(f, "r{to} = fma r{a}, r{b}, r{c}"),
                ScalarOp::Cast(from, d) => write!(f, "r{to} = cast {from} r{a} to {d}"),
                ScalarOp::Move => write!(f, "r{to} = r{a}"),
            },
            Instr::Dim { view, axis, to } => write!(f, "r{to} = extent of axis {axis} of v{view}"),
            Instr::View { op: ViewOp::Narrow { axis, start, length }, from, to } => {
                write!(f, "v{to} = v{from}, axis {axis}: r{length} from r{start}")
            }
            Instr::View { op: ViewOp::Pick { axis, index }, from, to } => {
                write!(f, "v{to} = v{from}, axis {axis} at r{index}")
            }
            Instr::ListItem { list, index, to } => write!(f, "v{to} = list {list} at r{index}"),
            Instr::LoadScalar { view, at, to, .. } => write!(f, "r{to} = v{view}{}", regs(at)),
            Instr::StoreScalar { view, at, value, .. } => {
                write!(f, "v{view}{} = r{value}", regs(at))
            }
            Instr::LoadSlot { slot, to, .. } => write!(f, "r{to} = s{slot}[0]"),
            Instr::Pass(pass) => pass.fmt(f),
            Instr::Dot(dot) => {
                let Dot { m, n, k, slot, .. } = **dot;
                write!(f, "dot {m}×{n}×{k}: s{slot} += {} · {}ᵀ", dot.a, dot.b)
            }
            Instr::Tile(op) => match &**op {
                TileOp::Reduce { op, axis, from, to, .. } => {
                    write!(f, "s{to} = {op:?} of s{from} along {axis}")
                }
                TileOp::Scan { op, axis, from, to, .. } => {
                    write!(f, "s{to} = scan {op:?} of s{from} along {axis}")
                }
                TileOp::Gather { axis, from, index, to, .. } => {
                    write!(f, "s{to} = s{from} at s{index} along {axis}")
                }
                TileOp::Atomic { op, view, expected, .. } => {
                    let what = if expected.is_some() {
                        "compare and swap".to_owned()
                    } else {
                        format!("{op:?}")
                    };
                    write!(f, "atomic {what} on v{view}")
                }
            },
            Instr::Jump(to) => write!(f, "go to {to}"),
            Instr::JumpUnless(reg, to) => write!(f, "go to {to} unless r{reg}"),
            Instr::ForStart { index, low, high, exit } => {
                write!(f, "for r{index} from r{low} below r{high}, else go to {exit}")
            }
            Instr::ForEnd { index, high, step, body } => {
                write!(f, "r{index} += r{step}, go to {body} if below r{high}")
            }
            Instr::Counter { op: CounterOp::Add, view, index, n, .. } => {
                write!(f, "counter v{view}[r{index}] += r{n}")
            }
            Instr::Counter { op: CounterOp::Wait, view, index, n, .. } => {
                write!(f, "wait for counter v{view}[r{index}] to reach r{n}")
            }
            Instr::Barrier { .. } => write!(f, "wait for every program"),
            Instr::Assert { .. } => write!(f, "assert"),
            Instr::Print { format, .. } => write!(f, "print {format:?}"),
            Instr::End => write!(f, "end"),
        }
    }
}

fn regs(at: &[Reg]) -> String {
    let list: Vec<String> = at.iter().map(|r| format!("r{r}")).collect();
    format!("[{}]", list.join(", "))
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Slot { slot, offset: 0, .. } => write!(f, "s{slot}")?,
            Place::Slot { slot, offset, .. } => write!(f, "s{slot}+{offset}")?,
            Place::Tensor { view, format, index } => {
                write!(f, "v{view}<{format}>[")?;
                for (n, i) in index.iter().enumerate() {
                    let comma = if n > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", i.base)?;
                    for (axis, &step) in i.steps.iter().enumerate().filter(|(_, s)| **s != 0) {
                        let axis = ["i", "j", "k", "l"][axis];
                        match step {
                            1 => write!(f, " + {axis}")?,
                            _ => write!(f, " + {step}·{axis}")?,
                        }
                    }
                }
                f.write_str("]")?;
            }
        }
        if self.widen { f.write_str(" as f32") } else { Ok(()) }
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |source: &Source| match source {
            Source::Temp(t) => format!("t{t}"),
            Source::Access(a) => self.accesses[*a as usize].to_string(),
            Source::Reg(r) => format!("r{r}"),
        };
        write!(f, "pass over {}, {} chunks", self.shape, self.temps)?;
        for (temp, access) in &self.homes {
            write!(f, "; t{temp} is {}", self.accesses[*access as usize])?;
        }
        for step in self.setup.iter().chain(&self.steps) {
            f.write_str("\n         ")?;
            match step {
                Step::Fill { reg, to, .. } => write!(f, "t{to} = r{reg} everywhere")?,
                Step::Load { access, to } => {
                    write!(f, "t{to} = {}", self.accesses[*access as usize])?
                }
                Step::Index { index, to } => {
                    write!(f, "t{to} = {} + {:?}", index.base, index.steps)?
                }
                Step::IndexCompare { op, a, b, to } => write!(
                    f,
                    "t{to} = {op:?} {} + {:?}, {} + {:?}",
                    a.base, a.steps, b.base, b.steps
                )?,
                Step::Unary { op, dtype, a, to } => {
                    write!(f, "t{to} = {op:?} {dtype} {}", text(a))?
                }
                Step::Binary { op, dtype, a, b, to } => {
                    write!(f, "t{to} = {op:?} {dtype} {}, {}", text(a), text(b))?;
                }
                Step::Compare { op, dtype, a, b, to } => {
                    write!(f, "t{to} = {op:?} {dtype} {}, {}", text(a), text(b))?;
                }
                Step::Select { c, a, b, to, .. } => {
                    write!(f, "t{to} = select {}, {}, {}", text(c), text(a), text(b))?;
                }
                Step::Fma { a, b, c, to } => {
                    write!(f, "t{to} = fma {}, {}, {}", text(a), text(b), text(c))?;
                }
                Step::Cast { from, dtype, a, to } => {
                    write!(f, "t{to} = cast {from} {} to {dtype}", text(a))?;
                }
                Step::Chain { chain, a, b, c, to, reduction, .. } => {
                    write!(f, "t{to} = {:?} {}, {}", chain.first, text(a), text(b))?;
                    match chain.second {
                        Second::None => {}
                        Second::Exp | Second::Square => write!(f, ", then {:?}", chain.second)?,
                        other => write!(f, ", then {other:?} {}", text(c))?,
                    }
                    if let Some(n) = reduction {
                        let r = &self.reductions[*n as usize];
                        let to = match r.to {
                            ReductionTarget::Reg(reg) => format!("r{reg}"),
                            ReductionTarget::Slot { slot, .. } => format!("s{slot}"),
                        };
                        write!(f, "; {to} = {:?} of it along {}", r.op, r.axis)?;
                    }
                }
                Step::SelectIndex { op, x, y, a, b, to, .. } => write!(
                    f,
                    "t{to} = {} where {op:?} {} + {:?}, {} + {:?}, else {}",
                    text(a),
                    x.base,
                    x.steps,
                    y.base,
                    y.steps,
                    text(b)
                )?,
                Step::Gather { view, to, .. } => write!(f, "t{to} = v{view} at …")?,
                Step::Scatter { view, value, .. } => write!(f, "v{view} at … = {}", text(value))?,
                Step::Store { access, value } => {
                    write!(f, "{} = {}", self.accesses[*access as usize], text(value))?;
                }
                Step::Reduce { reduction, value } => {
                    let r = &self.reductions[*reduction as usize];
                    let to = match r.to {
                        ReductionTarget::Reg(reg) => format!("r{reg}"),
                        ReductionTarget::Slot { slot, .. } => format!("s{slot}"),
                    };
                    write!(f, "{to} = {:?} of {} along {}", r.op, text(value), r.axis)?;
                }
            }
        }
        Ok(())
    }
}
