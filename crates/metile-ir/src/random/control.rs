//! Loops and branches.

use super::build::Generator;
use crate::dtype::DType;
use crate::tile::{BinaryOp, CompareOp, OpKind, RegionId, TileType, Type, Value};

impl Generator<'_, '_> {
    pub(super) fn control(&mut self) -> Option<()> {
        if self.depth >= self.limits.depth {
            return self.elementwise();
        }
        match self.choices.below(4) {
            0 => self.branch(),
            1 => self.while_loop(),
            _ => self.for_loop(),
        }
    }

    /// Values that are carried: any that are visible.
    fn carried(&mut self) -> Vec<Value> {
        (0..self.choices.below(4)).filter_map(|_| self.any(|_| true)).collect()
    }

    fn types(&self, values: &[Value]) -> Vec<TileType> {
        values.iter().filter_map(|&v| self.ty(v)).collect()
    }

    /// A new region: `fill` gets its arguments and gives what its terminator takes. Whatever comes of
    /// that, building goes on outside of the region.
    fn region(
        &mut self,
        arguments: &[TileType],
        uniform: bool,
        end: OpKind,
        fill: impl FnOnce(&mut Self, &[Value]) -> Option<Vec<Value>>,
    ) -> Option<RegionId> {
        let scope = self.open();
        self.uniform &= uniform;
        let region = self.b.new_region();
        let values: Vec<Value> =
            arguments.iter().map(|&ty| self.b.argument(region, Type::Tile(ty), None)).collect();
        self.tiles.extend(&values);
        let outer = self.b.enter(region);
        let given = fill(self, &values);
        if let Some(given) = &given {
            self.b.control(end, given, Vec::new(), &[]);
        }
        self.b.enter(outer);
        self.close(&scope);
        given.map(|_| region)
    }

    fn wanted(&mut self, types: &[TileType]) -> Option<Vec<Value>> {
        types.iter().map(|&ty| self.want(ty)).collect()
    }

    fn results(
        &mut self,
        kind: OpKind,
        operands: &[Value],
        regions: Vec<RegionId>,
        types: &[TileType],
    ) {
        let types: Vec<Type> = types.iter().map(|&t| Type::Tile(t)).collect();
        let op = self.b.control(kind, operands, regions, &types);
        let results = self.b.kernel().ops[op].results.clone();
        self.tiles.extend(results);
    }

    fn some_steps(&mut self) {
        let count = self.choices.below(7);
        self.steps(count);
    }

    fn branch(&mut self) -> Option<()> {
        let condition = self.want(TileType::scalar(DType::Bool))?;
        let like = self.carried();
        let types = self.types(&like);
        let mut regions = Vec::new();
        for _ in 0..2 {
            regions.push(self.region(&[], false, OpKind::Yield, |g, _| {
                g.some_steps();
                g.wanted(&types)
            })?);
        }
        self.results(OpKind::If, &[condition], regions, &types);
        Some(())
    }

    fn for_loop(&mut self) -> Option<()> {
        let (mut operands, fixed) = self.bounds()?;
        let inits = self.carried();
        let types = self.types(&inits);
        let mut arguments = vec![TileType::scalar(DType::I64)];
        arguments.extend(&types);
        let region = self.region(&arguments, fixed, OpKind::Yield, |g, _| {
            g.some_steps();
            g.wanted(&types)
        })?;
        operands.extend(inits);
        self.results(OpKind::For, &operands, vec![region], &types);
        Some(())
    }

    /// Low, high and step of a loop that runs a few times at most, and whether every program runs it
    /// equally often.
    fn bounds(&mut self) -> Option<(Vec<Value>, bool)> {
        let step = self.choices.below(5) as i64 - 1;
        let step = self.int(if step == 0 { 1 } else { step })?;
        match self.choices.below(8) {
            0..=4 => {
                let low = self.choices.below(6) as i64 - 2;
                let high = low + self.choices.below(5) as i64 - 1;
                Some((vec![self.int(low)?, self.int(high)?, step], true))
            }
            5 => {
                // The index would overflow.
                let low = i64::MAX - self.choices.below(4) as i64;
                Some((vec![self.int(low)?, self.int(i64::MAX)?, step], true))
            }
            _ => {
                let i64s = TileType::scalar(DType::I64);
                let (low, length, mask) = (self.want(i64s)?, self.want(i64s)?, self.int(3)?);
                let length = self.op(OpKind::Binary(BinaryOp::And), &[length, mask], None)?;
                let high = self.op(OpKind::Binary(BinaryOp::Add), &[low, length], None)?;
                Some((vec![low, high, step], false))
            }
        }
    }

    /// Counts down from a small number; may leave sooner.
    fn while_loop(&mut self) -> Option<()> {
        let counter = TileType::scalar(DType::I64);
        let start = match self.choices.chance(128) {
            true => {
                let (any, mask) = (self.want(counter)?, self.int(3)?);
                self.op(OpKind::Binary(BinaryOp::And), &[any, mask], None)?
            }
            false => {
                let start = self.choices.below(4) as i64;
                self.int(start)?
            }
        };
        let mut inits = vec![start];
        inits.extend(self.carried());
        let types = self.types(&inits);
        let test = self.region(&types, false, OpKind::Condition, |g, arguments| {
            let left = *arguments.first()?;
            let steps = g.choices.below(3);
            g.steps(steps);
            let zero = g.int(0)?;
            let mut go = g.op(OpKind::Compare(CompareOp::Gt), &[left, zero], None)?;
            if g.choices.chance(96) {
                let also = g.want(TileType::scalar(DType::Bool))?;
                go = g.op(OpKind::Binary(BinaryOp::And), &[go, also], None)?;
            }
            let mut given = vec![go, left];
            given.extend(g.wanted(types.get(1..)?)?);
            Some(given)
        })?;
        let body = self.region(&types, false, OpKind::Yield, |g, arguments| {
            let left = *arguments.first()?;
            g.some_steps();
            let one = g.int(1)?;
            let mut given = vec![g.op(OpKind::Binary(BinaryOp::Sub), &[left, one], None)?];
            given.extend(g.wanted(types.get(1..)?)?);
            Some(given)
        })?;
        self.results(OpKind::While, &inits, vec![test, body], &types);
        Some(())
    }
}
