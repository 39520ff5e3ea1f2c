//! Where slots lie in a program's scratch memory.

use super::form::{Instr, SlotId};

/// Slots begin at cache lines, and not all at the same place of a page.
const LINE: usize = 64;

/// The byte offset and size of each slot, and the bytes all of them take. Slots whose lives do not
/// meet share memory; `loops` are stretches of `code` that run more than once.
pub(super) fn place(
    code: &[Instr],
    loops: &[(usize, usize)],
    sizes: &[usize],
) -> (Vec<(usize, usize)>, usize) {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; sizes.len()];
    for (n, instr) in code.iter().enumerate() {
        instr.for_each_slot(&mut |slot: SlotId| {
            let life = lives[slot as usize].get_or_insert((n, n));
            life.1 = n;
        });
    }
    // What is alive before a loop and used in it stays alive to the loop's end. Inner loops come
    // first, so one round is enough.
    for &(start, end) in loops {
        for life in lives.iter_mut().flatten() {
            if life.0 < start && life.1 >= start && life.1 < end {
                life.1 = end;
            }
        }
    }
    let mut order: Vec<usize> = (0..sizes.len()).filter(|&s| lives[s].is_some()).collect();
    order.sort_by_key(|&s| std::cmp::Reverse(sizes[s]));
    let mut placed: Vec<(usize, usize, usize, usize)> = Vec::new();
    let mut slots = vec![(0, 0); sizes.len()];
    let mut total = 0;
    for slot in order {
        let Some((first, last)) = lives[slot] else { continue };
        let size = sizes[slot].div_ceil(LINE) * LINE;
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&(_, _, from, to)| from <= last && first <= to)
            .map(|&(offset, size, ..)| (offset, size))
            .collect();
        taken.sort_unstable();
        let mut offset = 0;
        for (start, length) in taken {
            if offset + size <= start {
                break;
            }
            offset = offset.max(start + length);
        }
        placed.push((offset, size, first, last));
        slots[slot] = (offset, sizes[slot]);
        total = total.max(offset + size);
    }
    (slots, total)
}
