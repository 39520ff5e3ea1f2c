//! What does not depend on the program: done when arguments are bound, or once a launch.

use crate::cpu::form::*;

/// The instructions that only need arguments and the grid, and those that also need what tensors hold
/// when the kernel is launched. The order within each stays.
pub(super) fn split(prologue: Vec<Instr>, regs: u32, views: usize) -> (Vec<Instr>, Vec<Instr>) {
    let (mut late_regs, mut late_views) = (vec![false; regs as usize], vec![false; views]);
    // The first assertion that fails is the one that is reported, so none overtakes another.
    let mut late_assert = false;
    let (mut bound, mut launched) = (Vec::new(), Vec::new());
    for instr in prologue {
        let reg = |reg: Reg| late_regs[reg as usize];
        let late = match &instr {
            Instr::Scalar { a, b, c, .. } => reg(*a) || reg(*b) || reg(*c),
            Instr::Dim { view, .. } => late_views[*view as usize],
            Instr::View { op, from, .. } => {
                let by = match *op {
                    ViewOp::Narrow { start, length, .. } => reg(start) || reg(length),
                    ViewOp::Pick { index, .. } => reg(index),
                };
                by || late_views[*from as usize]
            }
            Instr::ListItem { index, .. } => reg(*index),
            Instr::Assert { value: Carrier::Reg(value, _), .. } => reg(*value) || late_assert,
            // What it reads may have changed by the next launch.
            _ => true,
        };
        match &instr {
            Instr::Scalar { to, .. } | Instr::Dim { to, .. } | Instr::LoadScalar { to, .. } => {
                late_regs[*to as usize] = late;
            }
            Instr::View { to, .. } | Instr::ListItem { to, .. } => late_views[*to as usize] = late,
            Instr::Assert { .. } => late_assert |= late,
            _ => {}
        }
        if late { launched.push(instr) } else { bound.push(instr) }
    }
    (bound, launched)
}

/// For each view, whether it is settled once arguments are bound: nothing makes it later.
pub(super) fn fixed_views(later: [&[Instr]; 2], views: usize) -> Vec<bool> {
    let mut fixed = vec![true; views];
    for instr in later.into_iter().flatten() {
        if let Instr::View { to, .. } | Instr::ListItem { to, .. } = instr {
            fixed[*to as usize] = false;
        }
    }
    fixed
}
