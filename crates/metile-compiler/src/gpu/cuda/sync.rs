//! Waiting, and making writes visible.

use super::EmitError;
use super::printer::Printer;
use metile_device::{Statement, SyncOp};

impl Printer<'_> {
    pub(super) fn sync(&mut self, op: SyncOp, statement: &Statement) -> Result<(), EmitError> {
        let function = match op {
            SyncOp::Barrier => {
                self.line("__syncthreads();");
                return Ok(());
            }
            SyncOp::WarpBarrier => {
                self.line("__syncwarp();");
                return Ok(());
            }
            SyncOp::AsyncFence => {
                self.line("metile::async_fence();");
                return Ok(());
            }
            SyncOp::GridBarrier => {
                let counter = self.one(self.operand(statement, 0)?)?;
                self.line(format_args!("metile::grid_barrier({counter});"));
                return Ok(());
            }
            SyncOp::CounterAdd => "add_release",
            SyncOp::CounterWait => "wait",
        };
        let [counter, offset, mask, n] = [0, 1, 2, 3].map(|n| self.operand(statement, n));
        let (counter, offset) = (self.one(counter?)?, self.one(offset?)?);
        let (mask, n) = (self.one(mask?)?, self.one(n?)?);
        self.line(format_args!("if ({mask}) metile::{function}({counter} + {offset}, {n});"));
        Ok(())
    }
}
