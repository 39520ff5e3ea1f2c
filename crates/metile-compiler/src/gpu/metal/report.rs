//! Telling the host.

use super::printer::Printer;
use metile_device::{ReportOp, Statement};

/// The first thread of the launch to find a false register claims the report by its first word's lower half,
/// as there is no exchange of 64 bits.
pub(super) fn print(printer: &mut Printer<'_>, op: ReportOp, statement: &Statement) {
    let ReportOp::Assert { message } = op;
    let &[report, ok, element] = &statement.operands[..] else { return };
    printer.functions.need("report", || {
        "inline void report(device ulong* to, uint message, long block, int element) {\n    \
         uint none = 0;\n    \
         while (!atomic_compare_exchange_weak_explicit(\n        \
         (device atomic_uint*)to, &none, message, memory_order_relaxed, memory_order_relaxed)) {\n        \
         if (none != 0) return;\n    }\n    \
         to[1] = ulong(block);\n    \
         to[2] = ulong(element);\n}"
            .to_owned()
    });
    let count = printer.program.count(ok).max(printer.program.count(element));
    let i = if count == 1 { "0" } else { "i" };
    let (report, ok, element) = (printer.name(report), printer.at(ok, i), printer.at(element, i));
    let number = u64::from(message) + 1;
    let text = format!("if (!({ok})) metile::report({report}, {number}u, block, {element});");
    match count {
        1 => printer.line(text),
        _ => printer.over(count, text),
    }
}
