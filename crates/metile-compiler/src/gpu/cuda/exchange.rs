//! Registers of other lanes.

use super::EmitError;
use super::printer::Printer;
use metile_device::{ExchangeOp, Statement};

impl Printer<'_> {
    pub(super) fn exchange(
        &mut self,
        op: ExchangeOp,
        statement: &Statement,
    ) -> Result<(), EmitError> {
        let (result, a) = (self.result(statement)?, self.operand(statement, 0)?);
        match op {
            ExchangeOp::Xor(mask) => self
                .define(result, |p, i| Ok(format!("metile::shuffle_xor({}, {mask})", p.at(a, i)?))),
            ExchangeOp::Index => {
                let lane = self.operand(statement, 1)?;
                self.define(result, |p, i| {
                    Ok(format!("metile::shuffle({}, {})", p.at(a, i)?, p.at(lane, i)?))
                })
            }
        }
    }
}
