//! Failed assertions.

use super::EmitError;
use super::printer::Printer;
use metile_device::{ReportOp, Statement};

impl Printer<'_> {
    pub(super) fn report(&mut self, op: ReportOp, statement: &Statement) -> Result<(), EmitError> {
        let ReportOp::Assert { message } = op;
        let [report, ok, element] = [0, 1, 2].map(|n| self.operand(statement, n));
        let (report, ok, element) = (self.one(report?)?, ok?, element?);
        let count = self.count(ok).max(self.count(element));
        let number = u64::from(message) + 1;
        if count == 1 {
            let (ok, element) = (self.one(ok)?, self.one(element)?);
            self.line(format_args!("if (!{ok}) metile::report({report}, {number}ull, {element});"));
            return Ok(());
        }
        let (ok, element) = (self.at(ok, "i")?, self.at(element, "i")?);
        self.unrolled("i", count);
        self.indented(|p| {
            p.line(format_args!("if (!{ok}) metile::report({report}, {number}ull, {element});"));
        });
        Ok(())
    }
}
