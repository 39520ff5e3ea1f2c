//! Element-wise operations on tiles and scalars.

use super::{Lowering, Val};
use metile_ir::tile::Op;

impl Lowering<'_> {
    pub(super) fn elementwise(&mut self, op: &Op) {
        let result = op.results[0];
        let dtype = self.dtype(result);
        if self.is_scalar(result) {
            let operands: Vec<_> = op.operands.iter().map(|&o| self.scalar(o)).collect();
            let made = self.register_op(&op.kind, &operands, dtype);
            return self.set(result, Val::Scalar(made));
        }
        let layout = self.layout(result);
        let operands: Vec<_> = op.operands.iter().map(|&o| self.tile(o, &layout)).collect();
        let made = self.register_op(&op.kind, &operands, dtype);
        let made = self.b.spread(made, layout.count());
        self.set(result, Val::Tile(made, layout));
    }
}
