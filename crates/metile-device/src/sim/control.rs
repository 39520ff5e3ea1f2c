//! Loops and branches. Lanes that leave a loop early keep what they carried; lanes of both branches run one branch after
//! the other, in an order drawn from the seed.

use super::block::{Counts, Frame, FrameKind, Warp};
use super::machine::Machine;
use super::poison::Poison;
use super::registers::{LANES, lane, lanes, offset};
use crate::ops::ControlOp;
use crate::program::{Program, Statement, Value};
use metile_ir::dtype::DType;

pub(super) fn run(
    m: &mut Machine<'_, '_, '_>,
    warp: &mut Warp,
    op: ControlOp,
    step: u32,
    mask: u32,
) {
    let statement = m.code.steps[step as usize].statement;
    match op {
        ControlOp::For { .. } => enter_for(m, warp, statement, step, mask),
        ControlOp::While => enter_while(m, warp, statement, step, mask),
        ControlOp::If => enter_if(m, warp, statement, step, mask),
        ControlOp::Yield => end(m, warp, statement, step),
        ControlOp::Condition => condition(m, warp, statement, step),
    }
}

fn push(m: &Machine<'_, '_, '_>, warp: &mut Warp, block: u32, mask: u32, kind: FrameKind) {
    let next = m.code.blocks[block as usize].first;
    warp.frames.push(Frame { block, next, mask, kind });
}

/// `to[n]` becomes `from[n]` in the lanes of `mask`, for all at once: the values may trade places.
fn assign(program: &Program, warp: &mut Warp, to: &[Value], from: &[Value], mask: u32) {
    let taken: Vec<(Vec<u64>, Option<Poison>)> =
        from.iter().map(|&v| (warp.registers.copy(v), warp.registers.poison(v).cloned())).collect();
    for (&to, (words, poison)) in to.iter().zip(taken) {
        warp.registers.merge(to, program.ty(to), &words, mask);
        let merged = Poison::merged(warp.registers.poison(to), poison.as_ref(), mask);
        warp.registers.set_poison(to, merged);
    }
}

/// Makes `to[n]` a copy of `from[n]`.
fn copy(warp: &mut Warp, to: &[Value], from: &[Value]) {
    for (&to, &from) in to.iter().zip(from) {
        let (words, poison) = (warp.registers.copy(from), warp.registers.poison(from).cloned());
        warp.registers.set(to, words);
        warp.registers.set_poison(to, poison);
    }
}

fn enter_for(m: &mut Machine<'_, '_, '_>, warp: &mut Warp, s: &Statement, step: u32, mask: u32) {
    let wide = m.program.dtype(s.operands[0]) == Some(DType::I64);
    let read = |n: usize| -> [i64; LANES] {
        let words = warp.registers.get(s.operands[n]);
        std::array::from_fn(|at| offset(words, wide, 0, at))
    };
    let counts = Box::new(Counts { index: read(0), high: read(1), step: read(2), wide });
    let inside = lanes(mask, 0).filter(|&at| counts.index[at] < counts.high[at]);
    let inside = inside.fold(0u32, |all, at| all | 1 << at);
    if inside == 0 {
        copy(warp, &s.results, &s.operands[3..]);
        return m.bury(warp, step);
    }
    let block = m.code.steps[step as usize].blocks[0];
    let arguments = m.code.blocks[block as usize].arguments;
    copy(warp, &arguments[1..], &s.operands[3..]);
    let room = warp.registers.room(m.program.ty(arguments[0]));
    warp.registers.set(arguments[0], room);
    show_index(warp, arguments[0], &counts);
    push(m, warp, block, inside, FrameKind::For { step, counts });
}

fn show_index(warp: &mut Warp, index: Value, counts: &Counts) {
    for (to, &from) in warp.registers.get_mut(index).iter_mut().zip(&counts.index) {
        *to = if counts.wide { from as u64 } else { u64::from(from as i32 as u32) };
    }
}

impl Counts {
    /// One round further; gives the lanes of `mask` that go on.
    fn advance(&mut self, mask: u32) -> u32 {
        let mut on = 0;
        for at in lanes(mask, 0) {
            let next = self.index[at].checked_add(self.step[at].max(1));
            let fits = |next: &i64| self.wide || i32::try_from(*next).is_ok();
            if let Some(next) = next.filter(fits).filter(|&next| next < self.high[at]) {
                self.index[at] = next;
                on |= 1 << at;
            }
        }
        on
    }
}

fn enter_while(m: &mut Machine<'_, '_, '_>, warp: &mut Warp, s: &Statement, step: u32, mask: u32) {
    let [before, inside] = m.code.steps[step as usize].blocks;
    copy(warp, &s.results, &s.operands);
    copy(warp, m.code.blocks[before as usize].arguments, &s.operands);
    copy(warp, m.code.blocks[inside as usize].arguments, &s.operands);
    push(m, warp, before, mask, FrameKind::While { step });
}

fn enter_if(m: &mut Machine<'_, '_, '_>, warp: &mut Warp, s: &Statement, step: u32, mask: u32) {
    for &result in &s.results {
        let room = warp.registers.room(m.program.ty(result));
        warp.registers.set(result, room);
    }
    let test = warp.registers.get(s.operands[0]);
    let yes = lanes(mask, 0).filter(|&at| lane(test, 0, at) != 0);
    let yes = yes.fold(0u32, |all, at| all | 1 << at);
    let blocks = m.code.steps[step as usize].blocks;
    let mut branches = [(blocks[0], yes), (blocks[1], mask & !yes)];
    if m.random.below(2) == 0 {
        branches.reverse();
    }
    let mut taken = branches.into_iter().filter(|b| b.1 != 0);
    // A branch runs only where there are lanes, of which there is at least one.
    if let Some((block, mask)) = taken.next() {
        push(m, warp, block, mask, FrameKind::If { step, other: taken.next() });
    }
}

/// `yield`.
fn end(m: &mut Machine<'_, '_, '_>, warp: &mut Warp, s: &Statement, yield_step: u32) {
    let Some(mut frame) = warp.frames.pop() else { return };
    match &mut frame.kind {
        FrameKind::Body => {}
        FrameKind::For { step, counts } => {
            let step = *step;
            let arguments = m.code.blocks[frame.block as usize].arguments;
            assign(m.program, warp, &arguments[1..], &s.operands, frame.mask);
            frame.mask = counts.advance(frame.mask);
            if frame.mask != 0 {
                show_index(warp, arguments[0], counts);
                m.bury(warp, yield_step);
                frame.next = m.code.blocks[frame.block as usize].first;
                warp.frames.push(frame);
                return;
            }
            let owner = m.code.steps[step as usize].statement;
            copy(warp, &owner.results, &arguments[1..]);
            m.bury(warp, yield_step);
            leave(m, warp, step);
        }
        FrameKind::While { step } => {
            let before = m.code.steps[*step as usize].blocks[0];
            let arguments = m.code.blocks[before as usize].arguments;
            assign(m.program, warp, arguments, &s.operands, frame.mask);
            m.bury(warp, yield_step);
            frame.block = before;
            frame.next = m.code.blocks[before as usize].first;
            warp.frames.push(frame);
        }
        FrameKind::If { step, other } => {
            let step = *step;
            let owner = m.code.steps[step as usize].statement;
            assign(m.program, warp, &owner.results, &s.operands, frame.mask);
            m.bury(warp, yield_step);
            match other.take() {
                Some((block, mask)) => {
                    push(m, warp, block, mask, FrameKind::If { step, other: None });
                }
                None => leave(m, warp, step),
            }
        }
    }
}

fn condition(m: &mut Machine<'_, '_, '_>, warp: &mut Warp, s: &Statement, condition_step: u32) {
    let Some(mut frame) = warp.frames.pop() else { return };
    let FrameKind::While { step } = frame.kind else { return };
    let test = warp.registers.get(s.operands[0]);
    let on = lanes(frame.mask, 0).filter(|&at| lane(test, 0, at) != 0);
    let on = on.fold(0u32, |all, at| all | 1 << at);
    let owner = &m.code.steps[step as usize];
    let inside = owner.blocks[1];
    let carried = &s.operands[1..];
    assign(m.program, warp, &owner.statement.results, carried, frame.mask & !on);
    assign(m.program, warp, m.code.blocks[inside as usize].arguments, carried, on);
    m.bury(warp, condition_step);
    if on == 0 {
        return leave(m, warp, step);
    }
    frame.mask = on;
    frame.block = inside;
    frame.next = m.code.blocks[inside as usize].first;
    warp.frames.push(frame);
}

/// After a loop or branch: what entered its blocks is gone.
fn leave(m: &Machine<'_, '_, '_>, warp: &mut Warp, step: u32) {
    let blocks = m.code.steps[step as usize].statement.blocks.len();
    for &block in &m.code.steps[step as usize].blocks[..blocks.min(2)] {
        for &argument in m.code.blocks[block as usize].arguments {
            warp.registers.drop(argument);
        }
    }
    m.bury(warp, step);
}
