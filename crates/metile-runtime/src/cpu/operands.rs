//! The operands of a pass in memory, row by row or several rows at a time: found, copied, written.

use super::machine::Machine;
use super::pass::Here;
use super::route::{Route, Walk};
use super::walk;
use metile_compiler::cpu::{Access, Step};
use metile_ir::tile::MAX_RANK;
use metile_simd::elementwise as simd;
use std::ops::Range;

/// Rows further apart than this are not fetched ahead: the guess is as good as none.
const MAX_AHEAD: usize = 1 << 24;

/// Where several rows of an operand lie.
enum Rows {
    /// One long row.
    Flat,
    /// Those of a range, alike: elements `low .. high` of each, the first row's from `first` on.
    Alike(Range<usize>, Walk),
    /// Each its own way.
    Each,
}

impl<'p> Here<'p> {
    /// Finds the row that each operand is on.
    pub(super) fn find_rows(&mut self, machine: &Machine<'_>) {
        let position = &self.position[..self.outer()];
        for access in 0..self.pass.accesses.len() as u16 {
            let route = self.route(access);
            let walk = if self.pass.together == 1 || route.flat {
                let width = self.width() * self.rows;
                route.row(&machine.program.regs, machine.scratch, position, width)
            } else {
                Walk::NONE
            };
            self.walks[access as usize].write(walk);
        }
    }

    /// Where this chunk's rows lie.
    fn rows_of(&self, machine: &Machine<'_>, access: u16) -> Rows {
        let route = self.route(access);
        if route.flat {
            return Rows::Flat;
        }
        let (position, sides) = (&self.position[..self.outer()], (self.width(), self.rows));
        match route.rows(&machine.program.regs, machine.scratch, position, sides) {
            Some((rows, walk)) => Rows::Alike(rows, walk),
            None => Rows::Each,
        }
    }

    /// Row `row` of those in this chunk, with its position on the outer axes.
    fn row_at(&self, machine: &Machine<'_>, access: u16, row: usize) -> (Walk, [usize; MAX_RANK]) {
        let mut position = self.position;
        position[self.outer() - 1] += row;
        let outer = &position[..self.outer()];
        let (route, regs) = (self.route(access), &machine.program.regs);
        (route.row(regs, machine.scratch, outer, self.width()), position)
    }

    /// The stretch of the row that any store writes to.
    pub(super) fn hull(&self) -> (usize, usize) {
        let mut hull = (usize::MAX, 0);
        for step in &self.pass.steps {
            if let Step::Store { access, .. } = step {
                let walk = self.walk(*access);
                if walk.low < walk.high {
                    hull = (hull.0.min(walk.low), hull.1.max(walk.high));
                }
            }
        }
        if hull.0 > hull.1 { (0, 0) } else { hull }
    }

    /// How many of this chunk's rows come up to the last one that any store writes to.
    pub(super) fn stored_rows(&self, machine: &Machine<'_>) -> usize {
        let mut stored = 0;
        for step in &self.pass.steps {
            let Step::Store { access, .. } = *step else { continue };
            let end = match self.rows_of(machine, access) {
                Rows::Flat => self.walk(access).high.div_ceil(self.width()),
                Rows::Alike(rows, walk) if walk.low < walk.high => rows.end,
                Rows::Alike(..) => 0,
                Rows::Each => self.rows,
            };
            stored = end.max(stored);
        }
        stored
    }

    /// Where the chunk lies, if its elements lie side by side as they are wanted.
    fn in_place(&self, access: u16) -> Option<*mut u8> {
        let (operand, route, walk) = self.operand_at(access);
        if self.pass.together > 1 && !route.flat {
            return None;
        }
        walk::in_place(operand, route, walk, (self.start, self.n))
    }

    /// Chunks that are made where they are kept go there.
    pub(super) fn place_homes(&mut self) {
        for &(temp, access) in &self.pass.homes {
            let place = self.in_place(access).filter(|_| !self.route(access).stream);
            self.set_temp(temp, place.unwrap_or_else(|| self.own(temp)));
        }
    }

    pub(super) fn route(&self, access: u16) -> &'p Route {
        // SAFETY: every operand of the pass was given its route when the pass began.
        unsafe { self.routes[access as usize].assume_init() }
    }
    fn walk(&self, access: u16) -> &Walk {
        // SAFETY: every operand of the pass was given its walk when the row began.
        unsafe { self.walks[access as usize].assume_init_ref() }
    }
    fn operand_at(&self, access: u16) -> (&'p Access, &'p Route, &Walk) {
        (&self.pass.accesses[access as usize], self.route(access), self.walk(access))
    }

    /// Finds the operands that are read in place. Where there is time, asks for what the next row will
    /// read: as far on as this row is from the last one.
    pub(super) fn resolve(&mut self, machine: &mut Machine<'_>) {
        let ahead = self.pass.heavy || self.pass.only_stores;
        for &access in &self.pass.reads {
            let (operand, route, _) = self.operand_at(access);
            // What the caches hold is soon there.
            if ahead && route.stream && route.step() == operand.dtype.bytes() as isize {
                self.fetch_ahead(machine, access);
            }
            let found = self.read(machine, access, self.copy(access));
            self.read[access as usize].write(found);
        }
        for &access in &self.pass.ones {
            let (operand, _, walk) = self.operand_at(access);
            let mut place = walk.first.cast_const();
            if walk.low == walk.high {
                let fill = operand.fill.map_or(&0, |reg| &machine.program.regs[reg as usize]);
                place = std::ptr::from_ref(fill).cast();
            }
            self.read[access as usize].write(place);
        }
    }

    fn fetch_ahead(&self, machine: &mut Machine<'_>, access: u16) {
        let (operand, _, walk) = self.operand_at(access);
        let bytes = operand.dtype.bytes();
        let last = &mut machine.worker.last[self.pass.first_access + access as usize];
        let first = walk.first.cast_const();
        // The chunks of a row in turn: the distance is known once the second row begins.
        if self.start <= walk.low {
            let before = last.0.addr();
            let moved = first.addr().wrapping_sub(before) as isize;
            *last = (first, if before == 0 { 0 } else { moved });
        }
        let distance = last.1;
        if distance != 0 && distance.unsigned_abs() <= MAX_AHEAD {
            let from = first.wrapping_offset(distance).wrapping_add(self.start * bytes);
            simd::prefetch(from, self.n * bytes);
        }
    }

    /// The elements of this chunk, in `chunk` unless they lie side by side as they are wanted.
    pub(super) fn read(&self, machine: &mut Machine<'_>, access: u16, chunk: *mut u8) -> *const u8 {
        if let Some(place) = self.in_place(access) {
            return place;
        }
        let (operand, route, walk) = self.operand_at(access);
        let position = &self.position[..self.outer()];
        let rows = if self.pass.together == 1 { Rows::Flat } else { self.rows_of(machine, access) };
        match rows {
            Rows::Flat => {
                let range = (self.start, self.n);
                walk::copy_row(machine, (operand, route, walk), position, range, chunk);
            }
            Rows::Alike(rows, walk) if operand.is_plain() => {
                let cells = (self.rows, self.width());
                walk::copy_rows(machine, (operand, route, &walk), rows, cells, chunk);
            }
            _ => {
                let width = self.width();
                for row in 0..self.rows {
                    let (walk, position) = self.row_at(machine, access, row);
                    let to = chunk.wrapping_add(row * width * operand.read_dtype().bytes());
                    let position = &position[..self.outer()];
                    walk::copy_row(machine, (operand, route, &walk), position, (0, width), to);
                }
            }
        }
        chunk
    }

    /// Writes the elements of this chunk, which are at `from`, unless that is where they go.
    pub(super) fn write(&self, machine: &Machine<'_>, access: u16, from: *const u8) {
        let (operand, route, walk) = self.operand_at(access);
        let rows = if self.pass.together == 1 { Rows::Flat } else { self.rows_of(machine, access) };
        let (width, row_bytes) = (self.width(), self.width() * operand.dtype.bytes());
        match rows {
            Rows::Flat => {
                walk::write(machine, (operand, route, walk), (self.start, self.n), from);
            }
            Rows::Alike(rows, walk) => {
                let step = route.row_step();
                for row in rows {
                    let first = walk.first.wrapping_offset(step.wrapping_mul(row as isize));
                    let from = from.wrapping_add(row * row_bytes);
                    let walk = Walk { first, ..walk };
                    walk::write(machine, (operand, route, &walk), (0, width), from);
                }
            }
            Rows::Each => {
                for row in 0..self.rows {
                    let (walk, _) = self.row_at(machine, access, row);
                    let from = from.wrapping_add(row * row_bytes);
                    walk::write(machine, (operand, route, &walk), (0, width), from);
                }
            }
        }
    }
}
