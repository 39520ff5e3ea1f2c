//! Which warp runs when, in an order drawn from the seed; and barriers, which let warps go on.

use super::block::{Block, State, Warp};
use super::findings::Kind;
use super::machine::Machine;
use super::random::Walk;
use super::{Failure, MAX_RESIDENT, warpgroup};
use metile_ir::diagnostic::Diagnostic;

/// The most statements that a warp runs before another may.
const QUANTUM: u64 = 96;

/// Runs all blocks: one after the other, or side by side if they may wait for each other.
pub(super) fn run(m: &mut Machine<'_, '_, '_>) -> Result<(), Failure> {
    if m.program.persistent {
        if m.blocks > MAX_RESIDENT {
            return Err(Failure::TooManyBlocks(m.blocks));
        }
        let all = (0..m.blocks).collect::<Vec<_>>();
        let make = |number: &u64| Block::new(m.program, m.code, *number, &mut m.random);
        let mut blocks: Vec<Block> = all.iter().map(make).collect();
        return together(m, &mut blocks);
    }
    for number in Walk::new(m.blocks, &mut m.random) {
        let block = Block::new(m.program, m.code, number, &mut m.random);
        together(m, &mut [block])?;
    }
    Ok(())
}

/// Runs blocks side by side until all have ended.
fn together(m: &mut Machine<'_, '_, '_>, blocks: &mut [Block]) -> Result<(), Failure> {
    let mut ready: Vec<(usize, usize)> = Vec::new();
    for (b, block) in blocks.iter().enumerate() {
        ready.extend((0..block.warps.len()).map(|w| (b, w)));
    }
    loop {
        if ready.is_empty() && !release(m, blocks, &mut ready)? {
            return Ok(());
        }
        let pick = m.random.below(ready.len() as u64) as usize;
        let (b, w) = ready[pick];
        let quantum = 1 + m.random.below(QUANTUM);
        let block = &mut blocks[b];
        m.run(&mut block.common, &mut block.warps[w], quantum)?;
        if block.warps[w].state != State::Running {
            ready.swap_remove(pick);
            match block.warps[w].state {
                State::Group(step) => group(m, b, block, (w / 4, step), &mut ready),
                _ => barrier(m, b, block, &mut ready),
            }
        }
        if std::mem::take(&mut m.raised) {
            for (b, block) in blocks.iter_mut().enumerate() {
                for (w, warp) in block.warps.iter_mut().enumerate() {
                    if matches!(warp.state, State::Counter(_)) {
                        warp.state = State::Running;
                        ready.push((b, w));
                    }
                }
            }
        }
    }
}

/// Lets the warps of a block go on if all that have not ended are at a barrier.
fn barrier(
    m: &mut Machine<'_, '_, '_>,
    b: usize,
    block: &mut Block,
    ready: &mut Vec<(usize, usize)>,
) {
    let at = |warp: &Warp| match warp.state {
        State::Barrier(step) => Some(step),
        _ => None,
    };
    let ended = block.warps.iter().filter(|w| w.state == State::Ended).count();
    let steps: Vec<u32> = block.warps.iter().filter_map(at).collect();
    if steps.is_empty() || steps.len() + ended < block.warps.len() {
        return;
    }
    let number = block.common.number;
    let first = steps[0];
    if let Some(&other) = steps.iter().find(|&&s| s != first) {
        m.findings.add_related(Kind::Divergent, first.min(other), || {
            let message =
                format!("is not where all threads of block {number} are: some are at another one");
            (message, Some((first.max(other), "the other one is here".to_owned())))
        });
    } else if ended > 0 {
        m.findings.add(Kind::Divergent, first, || {
            format!("waits for {ended} warps of block {number} that have ended")
        });
    }
    block.common.epoch += 1;
    for (_, known) in std::mem::take(&mut block.common.acquired) {
        block.common.known.join(&known);
    }
    for (w, warp) in block.warps.iter_mut().enumerate() {
        if at(warp).is_some() {
            warp.state = State::Running;
            ready.push((b, w));
        }
    }
}

/// Computes a warpgroup's product if its four warps are there.
fn group(
    m: &mut Machine<'_, '_, '_>,
    b: usize,
    block: &mut Block,
    (group, step): (usize, u32),
    ready: &mut Vec<(usize, usize)>,
) {
    let warps = group * 4..group * 4 + 4;
    if block.warps[warps.clone()].iter().any(|w| w.state != State::Group(step)) {
        return;
    }
    warpgroup::multiply(m, block, group, step);
    for w in warps {
        block.warps[w].state = State::Running;
        ready.push((b, w));
    }
}

/// When no warp can go on: the grid barrier if all are there. Gives whether any goes on; if not, all have ended.
fn release(
    m: &mut Machine<'_, '_, '_>,
    blocks: &mut [Block],
    ready: &mut Vec<(usize, usize)>,
) -> Result<bool, Failure> {
    let warps = || blocks.iter().flat_map(|b| &b.warps);
    if warps().all(|w| w.state == State::Ended) {
        return Ok(false);
    }
    let mut at = None;
    for warp in warps() {
        match warp.state {
            State::GridBarrier(step) if at.is_none_or(|at| at == step) => at = Some(step),
            _ => return Err(Failure::Deadlock(Box::new(deadlock(m, blocks)))),
        }
    }
    m.grid_epoch += 1;
    for (b, block) in blocks.iter_mut().enumerate() {
        block.common.epoch += 1;
        block.common.acquired.clear();
        for (w, warp) in block.warps.iter_mut().enumerate() {
            warp.state = State::Running;
            ready.push((b, w));
        }
    }
    Ok(true)
}

/// Who waits for what for ever.
fn deadlock(m: &Machine<'_, '_, '_>, blocks: &[Block]) -> Diagnostic {
    let place = |warp: &Warp| match warp.state {
        State::Barrier(step)
        | State::GridBarrier(step)
        | State::Counter(step)
        | State::Group(step) => Some(step),
        State::Running | State::Ended => None,
    };
    let mut ended = None;
    let mut waiting: Vec<(u64, u32, u32)> = Vec::new();
    for block in blocks {
        for warp in &block.warps {
            match place(warp) {
                Some(step) => waiting.push((block.common.number, warp.number, step)),
                None => ended = ended.or(Some((block.common.number, warp.number))),
            }
        }
    }
    let Some(&(block, warp, step)) = waiting.first() else {
        return Diagnostic::error("all threads wait for each other");
    };
    let others = match (ended, waiting.iter().find(|w| w.2 != step)) {
        (_, Some((b, w, _))) => format!("warp {w} of block {b} waits elsewhere"),
        (Some((b, w)), None) => format!("warp {w} of block {b} has ended"),
        (None, None) => "nobody is left to raise it".to_owned(),
    };
    let message = format!("waits for ever: warp {warp} of block {block} is here, and {others}");
    let mut found = m.findings.diagnostic(step, &message);
    let mut seen = vec![step];
    for &(.., step) in &waiting {
        let span = m.code.steps[step as usize].statement.span;
        if let (false, Some(span)) = (seen.contains(&step), span) {
            seen.push(step);
            found.related.push((span, "others wait here".to_owned()));
        }
    }
    found
}
