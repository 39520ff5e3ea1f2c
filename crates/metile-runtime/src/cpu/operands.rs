//! The operands of a pass in memory, row by row or several rows at a time: found, copied, written.

use super::machine::Machine;
use super::pass::Here;
use super::route::{Route, Walk};
use super::walk;
use metile_compiler::cpu::{Access, Place, Step};
use metile_ir::tile::MAX_RANK;
use metile_simd::elementwise as simd;

/// Rows further apart than this are not fetched ahead: the guess is as good as none.
const MAX_AHEAD: usize = 1 << 24;

impl<'p> Here<'p> {
    /// Finds the row that each operand is on.
    pub(super) fn find_rows(&mut self, machine: &Machine<'_>) {
        for access in 0..self.pass.accesses.len() as u16 {
            let mut walk = Walk::NONE;
            let position = &self.position[..self.outer()];
            self.route(access).row(&machine.program.regs, machine.scratch, position, &mut walk);
            self.walks[access as usize].write(walk);
        }
    }

    /// Row `row` of those in this chunk.
    fn walk_at(&self, machine: &Machine<'_>, access: u16, row: usize) -> Walk {
        let (route, walk) = (self.route(access), self.walk(access));
        let Some(axis) = self.outer().checked_sub(1).filter(|_| row > 0) else { return *walk };
        if route.is_even(axis) {
            let first =
                walk.first.wrapping_offset(route.outer_step(axis).wrapping_mul(row as isize));
            return Walk { first, ..*walk };
        }
        let mut walk = Walk::NONE;
        let position = self.position_at(row);
        let position = &position[..self.outer()];
        route.row(&machine.program.regs, machine.scratch, position, &mut walk);
        walk
    }

    fn position_at(&self, row: usize) -> [usize; MAX_RANK] {
        let mut position = self.position;
        if let Some(axis) = self.outer().checked_sub(1) {
            position[axis] += row;
        }
        position
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
        let stored = |row: usize| {
            self.pass.steps.iter().any(|step| match step {
                Step::Store { access, .. } => {
                    let walk = self.walk_at(machine, *access, row);
                    walk.low < walk.high
                }
                _ => false,
            })
        };
        (0..self.rows).rev().find(|&row| stored(row)).map_or(0, |row| row + 1)
    }

    /// Where the chunk lies, if its elements lie side by side as they are wanted.
    fn in_place(&self, access: u16) -> Option<*mut u8> {
        let (operand, route, walk) = self.operand_at(access);
        let place = walk::in_place(operand, route, walk, (self.start, self.width()))?;
        if self.rows == 1 {
            return Some(place);
        }
        let axis = self.outer() - 1;
        let row = (self.width() * operand.dtype.bytes()) as isize;
        (route.is_even(axis) && route.outer_step(axis) == row).then_some(place)
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
            let tensor = matches!(operand.place, Place::Tensor { .. });
            if ahead && tensor && route.step() == operand.dtype.bytes() as isize {
                self.fetch_ahead(machine, access);
            }
            let found = self.read(machine, access, self.copy(access));
            self.read[access as usize].write(found);
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
        if self.rows == 1 {
            let position = &self.position[..self.outer()];
            walk::copy_row(machine, (operand, route, walk), position, (self.start, self.n), chunk);
            return chunk;
        }
        let width = self.width();
        for row in 0..self.rows {
            let walk = self.walk_at(machine, access, row);
            let position = self.position_at(row);
            let position = &position[..self.outer()];
            let to = chunk.wrapping_add(row * width * operand.read_dtype().bytes());
            walk::copy_row(machine, (operand, route, &walk), position, (0, width), to);
        }
        chunk
    }

    /// Writes the elements of this chunk, which are at `from`, unless that is where they go.
    pub(super) fn write(&self, machine: &Machine<'_>, access: u16, from: *const u8) {
        let (operand, route, walk) = self.operand_at(access);
        if self.rows == 1 {
            return walk::write(machine, (operand, route, walk), (self.start, self.n), from);
        }
        let (width, bytes) = (self.width(), operand.dtype.bytes());
        if self.in_place(access).is_some() {
            let whole = Walk { high: self.n, ..*walk };
            return walk::write(machine, (operand, route, &whole), (0, self.n), from);
        }
        for row in 0..self.rows {
            let walk = self.walk_at(machine, access, row);
            let from = from.wrapping_add(row * width * bytes);
            walk::write(machine, (operand, route, &walk), (0, width), from);
        }
    }
}
