//! Steps of a pass made into super-instructions, and results put straight where they are kept.

use crate::cpu::form::*;
use metile_ir::dtype::DType;
use metile_ir::tile::{BinaryOp, ReduceOp, UnaryOp};
use metile_simd::chain::{Chain, Second};

/// Joins an `f32` operation with the one step that uses its result, and with the reduction that takes
/// the outcome.
pub(super) fn chains(pass: &mut Pass) {
    let uses = uses(pass);
    let made = makers(pass);
    let mut gone = vec![false; pass.steps.len()];
    for n in 0..pass.steps.len() {
        if let Some((chain, inner)) = two_steps(pass, n, &uses, &made) {
            pass.steps[n] = chain;
            gone[inner] = true;
        }
    }
    for n in 0..pass.steps.len() {
        if !gone[n] {
            feed(pass, n, &mut gone);
        }
    }
    let mut n = 0;
    pass.steps.retain(|_| {
        n += 1;
        !gone[n - 1]
    });
}

/// A choice by position between a chunk that nobody else reads and something else is made in that chunk.
pub(super) fn choices(pass: &mut Pass) {
    let (uses, made) = (uses(pass), makers(pass));
    for n in 0..pass.steps.len() {
        let Step::SelectIndex { a, b, to, .. } = pass.steps[n] else { continue };
        let alone = |source: Source| match source {
            Source::Temp(temp) if uses[temp as usize] == 1 => {
                // A choice may be what it was made from, which others read.
                let made = made[temp as usize]?;
                let choice = matches!(pass.steps[made], Step::SelectIndex { .. });
                (!choice).then_some((made, temp))
            }
            _ => None,
        };
        let Some((maker, old)) = alone(a).or_else(|| alone(b)) else { continue };
        for step in [maker, n] {
            pass.steps[step].for_each_temp(&mut |temp, _| {
                if *temp == old {
                    *temp = to;
                }
            });
        }
    }
}

/// How often each chunk is read.
fn uses(pass: &mut Pass) -> Vec<u32> {
    let mut uses = vec![0; pass.temps as usize];
    for step in &mut pass.steps {
        step.for_each_temp(&mut |temp, made| uses[*temp as usize] += u32::from(!made));
    }
    uses
}

/// The step that makes each chunk.
fn makers(pass: &mut Pass) -> Vec<Option<usize>> {
    let mut makers = vec![None; pass.temps as usize];
    for (n, step) in pass.steps.iter_mut().enumerate() {
        step.for_each_temp(&mut |temp, made| {
            if made {
                makers[*temp as usize] = Some(n);
            }
        });
    }
    makers
}

/// The chain of step `n` and the one before it that only it uses, with that one's number.
fn two_steps(pass: &Pass, n: usize, uses: &[u32], made: &[Option<usize>]) -> Option<(Step, usize)> {
    let reads = |source: Source| match source {
        Source::Temp(temp) => made[temp as usize].map(|at| (temp, at)),
        _ => None,
    };
    let (second, inner, c, wanted, to) = match pass.steps[n] {
        Step::Unary { op: UnaryOp::Exp, dtype: DType::F32, a, to } => {
            (Second::Exp, a, Source::Reg(0), 1, to)
        }
        Step::Binary { op: BinaryOp::Mul, dtype: DType::F32, a, b, to } if a == b => {
            (Second::Square, a, Source::Reg(0), 2, to)
        }
        Step::Binary { op: op @ (BinaryOp::Mul | BinaryOp::Add), dtype: DType::F32, a, b, to } => {
            let second = if op == BinaryOp::Mul { Second::Mul } else { Second::Add };
            // Either side may be the chain; the other one has to be there by then.
            let fits = |s: Source| {
                reads(s).is_some_and(|(temp, at)| {
                    uses[temp as usize] == 1 && matches!(pass.steps[at], Step::Binary { .. })
                })
            };
            if fits(a) { (second, a, b, 1, to) } else { (second, b, a, 1, to) }
        }
        _ => return None,
    };
    let (temp, at) = reads(inner)?;
    let Step::Binary { op: first, dtype: DType::F32, a, b, .. } = pass.steps[at] else {
        return None;
    };
    let (a, b) = in_order(first, a, b)?;
    let chain = Chain { first, second, reduce: None };
    (uses[temp as usize] == wanted && chain.exists())
        .then_some((Step::Chain { chain, a, b, c, reduction: None, to, keep: true }, at))
}

/// The operands with a scalar, if there is one, on the right.
fn in_order(op: BinaryOp, a: Source, b: Source) -> Option<(Source, Source)> {
    match (a, b, op) {
        (Source::Reg(_), Source::Reg(_), _) => None,
        (Source::Reg(_), _, BinaryOp::Add | BinaryOp::Mul) => Some((b, a)),
        (Source::Reg(_), ..) => None,
        _ => Some((a, b)),
    }
}

/// Joins step `n` with the reduction of its result along the row.
fn feed(pass: &mut Pass, n: usize, gone: &mut [bool]) {
    let to = match pass.steps[n] {
        Step::Chain { to, reduction: None, .. } | Step::Binary { dtype: DType::F32, to, .. } => to,
        _ => return,
    };
    let inner = pass.shape.rank() - 1;
    let taker = (n + 1..pass.steps.len()).find(|&m| {
        let Step::Reduce { reduction, value: Source::Temp(temp) } = pass.steps[m] else {
            return false;
        };
        let r = &pass.reductions[reduction as usize];
        temp == to && r.axis == inner && matches!(r.op, ReduceOp::Sum | ReduceOp::Max) && !gone[m]
    });
    let Some(taker) = taker else { return };
    let Step::Reduce { reduction, .. } = pass.steps[taker] else { return };
    let reduce = Some(pass.reductions[reduction as usize].op);
    let fed = match pass.steps[n] {
        Step::Chain { chain, a, b, c, .. } => {
            let chain = Chain { reduce, ..chain };
            Step::Chain { chain, a, b, c, reduction: Some(reduction), to, keep: true }
        }
        Step::Binary { op: first, a, b, .. } => {
            let chain = Chain { first, second: Second::None, reduce };
            let Some((a, b)) = in_order(first, a, b).filter(|_| chain.exists()) else { return };
            Step::Chain {
                chain,
                a,
                b,
                c: Source::Reg(0),
                reduction: Some(reduction),
                to,
                keep: true,
            }
        }
        _ => return,
    };
    pass.steps[n] = fed;
    gone[taker] = true;
}

/// A chunk that is stored to a slot which the pass does not touch otherwise is made there, and one that is
/// stored to a tensor which it does not touch otherwise (`alone`, for each operand) where that works out.
pub(super) fn homes(pass: &mut Pass, alone: &[bool]) {
    let inner = pass.shape.rank() - 1;
    let mut homes: Vec<(Temp, u16)> = Vec::new();
    let mut setup = Vec::new();
    for step in &mut pass.setup {
        step.for_each_temp(&mut |temp, _| setup.push(*temp));
    }
    for step in &pass.steps {
        let Step::Store { access, value: Source::Temp(temp) } = *step else { continue };
        let fits = match pass.accesses[access as usize].place {
            Place::Slot { slot, strides, .. } => {
                strides[inner] == 1 && only_here(pass, slot, access)
            }
            Place::Tensor { .. } => alone[access as usize],
        };
        let taken = homes.iter().any(|(t, a)| *t == temp || *a == access) || setup.contains(&temp);
        if fits && !taken {
            homes.push((temp, access));
        }
    }
    // A tensor's chunk may yet have to be moved.
    let done = |access: u16| matches!(pass.accesses[access as usize].place, Place::Slot { .. });
    pass.steps.retain(|step| match *step {
        Step::Store { access, value: Source::Temp(temp) } => {
            !(done(access) && homes.contains(&(temp, access)))
        }
        _ => true,
    });
    pass.homes = homes;
}

/// Notes which results of super-instructions nobody reads. After [`homes`].
pub(super) fn unread(pass: &mut Pass) {
    let uses = uses(pass);
    for step in &mut pass.steps {
        if let Step::Chain { reduction: Some(_), to, keep, .. } = step {
            *keep = uses[*to as usize] > 0 || pass.homes.iter().any(|(temp, _)| temp == to);
        }
    }
}

/// Whether nothing but operand `access` touches the slot.
fn only_here(pass: &Pass, slot: SlotId, access: u16) -> bool {
    let elsewhere = pass.accesses.iter().enumerate().any(|(n, other)| {
        n != access as usize && matches!(other.place, Place::Slot { slot: s, .. } if s == slot)
    });
    !elsewhere && !reduced_into(pass, slot)
}

fn reduced_into(pass: &Pass, slot: SlotId) -> bool {
    pass.reductions
        .iter()
        .any(|r| matches!(r.to, ReductionTarget::Slot { slot: s, .. } if s == slot))
}
