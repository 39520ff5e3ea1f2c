//! Branches and loops whose course is known, and values that go through them unchanged.

use crate::passes::edit::{Edit, Step};
use metile_ir::tile::{OpId, RegionId, Value};

/// The scalar integer that `value` is, if it is a constant.
fn known(edit: &Edit, value: Value) -> Option<i64> {
    i64::try_from(edit.constant(value)?.as_int()?).ok()
}

fn regions(edit: &Edit, op: OpId) -> Vec<RegionId> {
    edit.kernel.ops[op].regions.clone()
}

fn arguments(edit: &Edit, region: RegionId) -> Vec<Value> {
    edit.kernel.regions[region].arguments.clone()
}

fn enter(edit: &mut Edit, region: RegionId, with: &[Value]) {
    for (argument, &value) in arguments(edit, region).into_iter().zip(with) {
        edit.substitute(argument, value);
    }
}

pub(super) fn branch(edit: &mut Edit, op: OpId) -> Option<Step> {
    let &condition = edit.operands(op).first()?;
    let &[then, otherwise] = &regions(edit, op)[..] else { return None };
    if let Some(condition) = edit.constant(condition) {
        let (ops, given) = edit.open(if condition.bits() != 0 { then } else { otherwise });
        edit.replace_all(op, &given);
        return Some(Step::Inline(ops));
    }
    // A value that both branches give is visible outside of them.
    let given: Vec<(Value, Value)> =
        edit.open(then).1.into_iter().zip(edit.open(otherwise).1).collect();
    let results = edit.kernel.ops[op].results.clone();
    for (result, (a, b)) in results.into_iter().zip(given) {
        if a == b {
            edit.substitute(result, a);
        }
    }
    None
}

pub(super) fn for_loop(edit: &mut Edit, op: OpId) -> Option<Step> {
    let operands = edit.operands(op);
    let &[low, high, step] = operands.get(..3)? else { return None };
    let inits = &operands[3..];
    let &body = regions(edit, op).first()?;
    let (low_at, high_at, step_by) = (known(edit, low), known(edit, high), known(edit, step));
    let never = low == high || low_at.zip(high_at).is_some_and(|(l, h)| l >= h);
    if never {
        edit.replace_all(op, inits);
        return Some(Step::Erase);
    }
    if let (Some(l), Some(h), Some(by)) = (low_at, high_at, step_by)
        && l.checked_add(by.max(1)).is_none_or(|next| next >= h)
    {
        let entering: Vec<Value> = std::iter::once(low).chain(inits.iter().copied()).collect();
        enter(edit, body, &entering);
        let (ops, given) = edit.open(body);
        edit.replace_all(op, &given);
        return Some(Step::Inline(ops));
    }
    let (_, yielded) = edit.open(body);
    let round: Vec<Value> = arguments(edit, body).into_iter().skip(1).collect();
    let results = edit.kernel.ops[op].results.clone();
    for (n, &init) in inits.iter().enumerate() {
        let (&argument, &back, &result) = (round.get(n)?, yielded.get(n)?, results.get(n)?);
        unchanged(edit, init, &[argument], &[back], result);
    }
    None
}

pub(super) fn while_loop(edit: &mut Edit, op: OpId) -> Option<Step> {
    let inits = edit.operands(op);
    let &[test, body] = &regions(edit, op)[..] else { return None };
    let (ops, leaving) = edit.open(test);
    let (&condition, carried) = leaving.split_first()?;
    if edit.constant(condition).is_some_and(|c| c.bits() == 0) {
        // The condition runs once, and its values are the results.
        enter(edit, test, &inits);
        edit.replace_all(op, carried);
        return Some(Step::Inline(ops));
    }
    let (_, yielded) = edit.open(body);
    let (first, second) = (arguments(edit, test), arguments(edit, body));
    let results = edit.kernel.ops[op].results.clone();
    for (n, &init) in inits.iter().enumerate() {
        let arguments = [*first.get(n)?, *second.get(n)?];
        let back = [*carried.get(n)?, *yielded.get(n)?];
        unchanged(edit, init, &arguments, &back, *results.get(n)?);
    }
    None
}

/// A carried value that only ever goes round as it came is its initial value everywhere.
fn unchanged(edit: &mut Edit, init: Value, arguments: &[Value], back: &[Value], result: Value) {
    let same = |edit: &Edit, v: &Value| {
        let v = edit.resolve(*v);
        v == edit.resolve(init) || arguments.contains(&v)
    };
    // Arguments that were replaced already would be seen as a change again and again.
    let done = arguments.iter().chain([&result]).all(|&v| edit.resolve(v) != v);
    if !done && back.iter().all(|v| same(edit, v)) {
        for &value in arguments.iter().chain([&result]) {
            edit.substitute(value, init);
        }
    }
}
