//! Loads of a loop that are begun one iteration early, into registers: their wait is spent on the products of the iteration before.

use super::pipeline::slice;
use metile_ir::Format;
use metile_ir::tile::{Access, Kernel, OpId, OpKind, RegionId, Type, Value};
use std::collections::{HashMap, HashSet};

/// Words of 32 bits that a thread may have of tiles that wait.
const MOST_WORDS: usize = 64;

/// By loop: loads of its region that feed `products` and nothing else, and whose place follows from the loop's index alone. Loops of `pipelined`
/// run ahead otherwise.
pub fn loads(
    kernel: &Kernel,
    threads: usize,
    products: &HashSet<OpId>,
    pipelined: impl Fn(OpId) -> bool,
) -> HashMap<OpId, Vec<OpId>> {
    let mut found = HashMap::new();
    for id in kernel.walk(kernel.body) {
        let op = &kernel.ops[id];
        if op.kind != OpKind::For || pipelined(id) {
            continue;
        }
        let region = op.regions[0];
        let loads: Vec<OpId> = kernel.regions[region]
            .ops
            .iter()
            .copied()
            .filter(|&load| is_early(kernel, products, region, load))
            .collect();
        let words: usize = loads.iter().map(|&load| words(kernel, load, threads)).sum();
        if !loads.is_empty() && words <= MOST_WORDS {
            found.insert(id, loads);
        }
    }
    found
}

fn words(kernel: &Kernel, load: OpId, threads: usize) -> usize {
    let Some(ty) = kernel.ty(kernel.ops[load].results[0]).tile() else { return 0 };
    let padded: usize = ty.shape.sides().iter().map(|s| s.next_power_of_two()).product();
    (padded * ty.dtype.bytes()).div_ceil(threads * 4)
}

/// Whether nothing but products read the load, of memory that the kernel does not write.
fn is_early(kernel: &Kernel, products: &HashSet<OpId>, region: RegionId, load: OpId) -> bool {
    let op = &kernel.ops[load];
    if op.kind != OpKind::LoadTile {
        return false;
    }
    let Type::Tensor(ty) = kernel.ty(op.operands[0]) else { return false };
    // Packed elements are taken apart as they are loaded, which would wait for them.
    let plain = ty.access == Access::Read && matches!(ty.format, Format::Plain(_));
    plain
        && feeds_products(kernel, products, region, op.results[0])
        && slice(kernel, region, load).is_some()
}

fn feeds_products(
    kernel: &Kernel,
    products: &HashSet<OpId>,
    region: RegionId,
    value: Value,
) -> bool {
    let mut users = kernel
        .walk(kernel.body)
        .into_iter()
        .filter(|&user| kernel.ops[user].operands.contains(&value))
        .peekable();
    users.peek().is_some()
        && users.all(|user| {
            let op = &kernel.ops[user];
            let here = kernel.regions[region].ops.contains(&user);
            here && match op.kind {
                OpKind::Dot { .. } => products.contains(&user) && op.operands[2] != value,
                OpKind::Cast | OpKind::Transpose(_) => {
                    feeds_products(kernel, products, region, op.results[0])
                }
                _ => false,
            }
        })
}
