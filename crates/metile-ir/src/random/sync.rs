//! Operations between programs, and for people.

use super::build::Generator;
use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::tile::{BinaryOp, CompareOp, OpKind, TileType, UnaryOp, Value};

impl Generator<'_, '_> {
    /// A barrier, or counters that amount to one, where every program comes by equally often.
    pub(super) fn synchronize(&mut self) -> Option<()> {
        let counters = self.counters?;
        if !self.uniform {
            return None;
        }
        if self.choices.chance(160) {
            self.effect(OpKind::GridBarrier, &[])?;
        } else {
            // In a loop a counter would be met again, already high enough.
            if self.depth > 0 || self.next_counter >= super::COUNTERS {
                return None;
            }
            let programs = self.programs?;
            let index = self.int(self.next_counter as i64)?;
            let one = TileType::scalar(DType::U32);
            let one = self.constant(one, Scalar::int(DType::U32, 1))?;
            self.next_counter += 1;
            self.effect(OpKind::CounterAdd, &[counters, index, one])?;
            self.effect(OpKind::CounterWait, &[counters, index, programs])?;
        }
        // In a loop, what follows a barrier also comes before it.
        if self.depth == 0 {
            for n in 0..self.shared.len() {
                self.shared[n] = self.choices.chance(128);
            }
        }
        Some(())
    }

    pub(super) fn people(&mut self) -> Option<()> {
        if !self.limits.people {
            return None;
        }
        if self.choices.chance(96) {
            let open = self.limits.payloads;
            let mut values = Vec::new();
            for _ in 0..self.choices.below(3) {
                let small = |t: TileType| t.shape.elements() <= 16 && (open || !t.dtype.is_float());
                values.extend(self.find(small));
            }
            let holes = vec!["{}"; values.len()].join(", ");
            let format = format!("values: {holes}");
            return self.effect(OpKind::Print { format }, &values);
        }
        let condition = self.truth()?;
        let message = format!("assertion {}", self.tiles.len());
        self.effect(OpKind::Assert { message }, &[condition])
    }

    /// A tile of truth values that are true by construction, or nearly always.
    fn truth(&mut self) -> Option<Value> {
        match self.choices.below(4) {
            0 => {
                let p = self.any(|t| t.dtype == DType::Bool)?;
                let not = self.op(OpKind::Unary(UnaryOp::Not), &[p], None)?;
                self.op(OpKind::Binary(BinaryOp::Or), &[p, not], None)
            }
            1 => {
                let a = self.any(|t| t.dtype.is_int())?;
                let ty = self.ty(a)?;
                let (seven, eight) = (Scalar::int(ty.dtype, 7), Scalar::int(ty.dtype, 8));
                let (seven, eight) = (self.constant(ty, seven)?, self.constant(ty, eight)?);
                let low = self.op(OpKind::Binary(BinaryOp::And), &[a, seven], None)?;
                self.op(OpKind::Compare(CompareOp::Lt), &[low, eight], None)
            }
            2 if self.choices.chance(64) => {
                let a = self.any(|t| t.dtype == DType::I64)?;
                let ty = self.ty(a)?;
                let rare = Scalar::i64(self.choices.byte().into());
                let rare = self.constant(ty, rare)?;
                self.op(OpKind::Compare(CompareOp::Ne), &[a, rare], None)
            }
            _ => {
                let shape = self.shape();
                self.constant(TileType::new(DType::Bool, shape), Scalar::bool(true))
            }
        }
    }
}
