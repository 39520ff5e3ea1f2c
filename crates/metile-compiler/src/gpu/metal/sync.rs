//! Waiting.

use super::EmitError;
use super::printer::Printer;
use metile_device::{Statement, SyncOp};

pub(super) fn print(
    printer: &mut Printer<'_>,
    op: SyncOp,
    statement: &Statement,
) -> Result<(), EmitError> {
    let resident = "it does not promise that all threadgroups of a launch run at once; make the \
                    parts before and after two kernels, and record both in a command list";
    match op {
        SyncOp::Barrier => {
            printer.line("threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);")
        }
        SyncOp::WarpBarrier => printer.line("simdgroup_barrier(mem_flags::mem_threadgroup);"),
        SyncOp::AsyncFence => {
            return Err(printer.unsupported(
                statement,
                "matrix product with operands in shared memory",
                "it is NVIDIA's; plan the kernel for the `apple` machine class",
            ));
        }
        SyncOp::GridBarrier => {
            return Err(printer.unsupported(statement, "grid barrier", resident));
        }
        SyncOp::CounterAdd | SyncOp::CounterWait => {
            return Err(printer.unsupported(statement, "counter between programs", resident));
        }
    }
    Ok(())
}
