//! Copies that run beside the threads.

use super::EmitError;
use super::printer::Printer;
use metile_device::{CopyOp, Statement};

impl Printer<'_> {
    pub(super) fn copy(&mut self, op: &CopyOp, statement: &Statement) -> Result<(), EmitError> {
        match op {
            CopyOp::Async { buffer, bytes, immediates, shared_immediates } => {
                if !matches!(bytes, 4 | 8 | 16) || immediates.len() != shared_immediates.len() {
                    return Err(self.malformed("an asynchronous copy of no such size"));
                }
                let [pointer, offset, to, mask] = [0, 1, 2, 3].map(|n| self.operand(statement, n));
                let (pointer, offset, to, mask) = (pointer?, offset?, to?, mask?);
                let dtype = self.pointee(pointer)?;
                let (from, base) = (self.one(pointer)?, self.shared(*buffer, dtype)?);
                let groups = immediates.len() as u32;
                let sources = self.immediates(immediates);
                let targets = self.immediates(shared_immediates);
                self.each_group(groups, |p, g| {
                    let source = p.offset(offset, g, &sources)?;
                    let target = p.offset(to, g, &targets)?;
                    let mask = p.at(mask, g)?;
                    Ok(format!(
                        "metile::copy_async<{bytes}>({base} + ({target}), {from} + ({source}), {mask});"
                    ))
                })
            }
            CopyOp::Commit => {
                self.line("metile::commit_copies();");
                Ok(())
            }
            CopyOp::Wait { pending } => {
                self.line(format_args!("metile::wait_copies<{pending}>();"));
                Ok(())
            }
        }
    }
}
