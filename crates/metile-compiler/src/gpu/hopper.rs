//! Plans for NVIDIA's sm_90a: products of 16-bit elements by warpgroups, operands in swizzled shared memory.

use super::class::Class;
use super::facts::Facts;
use super::layout::{Bit, Layout, bits};
use super::pipeline::staged_loads;
use metile_ir::DType;
use metile_ir::tile::{Kernel, OpId, OpKind, Value};
use std::collections::{HashMap, HashSet};

/// Registers of sums that a thread may have.
const MAX_SUMS: usize = 128;
/// Shared memory of a multiprocessor that blocks share, and what a block takes besides what it asks for.
const PROCESSOR_BYTES: usize = 228 << 10;
const BLOCK_BYTES: usize = 1 << 10;

/// A loop whose loads run ahead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The loads, in order.
    pub loads: Vec<OpId>,
    /// Tiles of each load that there is room for.
    pub stages: u32,
}

/// Whether warpgroups can compute the product: 16-bit operands of one type, sides that fit.
pub fn fits(kernel: &Kernel, id: OpId) -> bool {
    let op = &kernel.ops[id];
    let OpKind::Dot { transpose_a, transpose_b } = op.kind else { return false };
    let tile = |n: usize| kernel.ty(op.operands[n]).tile();
    let (Some(a), Some(b), Some(out)) = (tile(0), tile(1), tile(2)) else { return false };
    let (m, n) = (out.shape.side(0), out.shape.side(1));
    let k = a.shape.side(usize::from(!transpose_a));
    let _ = transpose_b;
    let powers = [m, n, k].iter().all(|side| side.is_power_of_two());
    // Rows of operands are whole columns of 64 elements.
    let inner = |t: metile_ir::tile::TileType| t.shape.side(1) >= 64;
    a.dtype == b.dtype
        && matches!(a.dtype, DType::F16 | DType::BF16)
        && powers
        && m >= 64
        && n >= 16
        && k >= 16
        && inner(a)
        && inner(b)
        && m * n <= MAX_SUMS * 32 * 8
}

/// Warps for a product of `m` rows and `n` columns.
pub fn warps(m: usize, n: usize) -> u32 {
    if m >= 128 && m * n >= 128 * 64 { 8 } else { 4 }
}

/// The layout of a product's sums: see [`metile_device::Wgmma`].
pub fn sums(m: usize, n: usize, warps: u32) -> Layout {
    let row = |bit| Bit { axis: 0, bit };
    let column = |bit| Bit { axis: 1, bit };
    let groups = bits(warps as usize / 4);
    let blocks = bits(m) - 6 - groups;
    let mut registers = vec![column(0), row(3)];
    registers.extend((3..bits(n)).map(column));
    registers.extend((6..6 + blocks).map(row));
    let lanes = [column(1), column(2), row(0), row(1), row(2)].map(Some);
    let mut warp_bits = vec![Some(row(4)), Some(row(5))];
    warp_bits.extend((6 + blocks..bits(m)).map(|bit| Some(row(bit))));
    Layout { registers, lanes, warps: warp_bits }
}

/// The loops whose loads feed such products and can run ahead.
pub fn pipelines(
    kernel: &Kernel,
    facts: &mut Facts<'_>,
    classes: &[Class],
    dots: &HashSet<OpId>,
) -> (HashMap<OpId, Pipeline>, u32) {
    let mut found = HashMap::new();
    let mut blocks = 2;
    for id in kernel.walk(kernel.body) {
        let loads = staged_loads(kernel, facts, classes, id, dots);
        if loads.is_empty() {
            continue;
        }
        let bytes: usize =
            loads.iter().map(|&load| tile_bytes(kernel, kernel.ops[load].results[0])).sum();
        let besides = operand_bytes(kernel, id, dots, &loads);
        // Two blocks on a multiprocessor fill each other's waits, if three tiles fit each, or two beside what is stored there for each product.
        let half = (PROCESSOR_BYTES / 2 - BLOCK_BYTES).saturating_sub(besides);
        let enough = if besides > 0 { 2 } else { 3 };
        let stages = match half / bytes {
            fit if fit >= enough => fit,
            _ => {
                blocks = 1;
                (PROCESSOR_BYTES - BLOCK_BYTES).saturating_sub(besides) / bytes
            }
        };
        if stages >= 2 {
            found.insert(id, Pipeline { loads, stages: stages.min(4) as u32 });
        }
    }
    (found, blocks)
}

fn tile_bytes(kernel: &Kernel, value: Value) -> usize {
    kernel.ty(value).tile().map_or(0, |t| t.shape.elements() * t.dtype.bytes())
}

/// Shared memory that operands of the products in the loop `id` take which `loads` don't copy there: those that are held there while the loop
/// runs, and the largest product's that are stored there each time.
fn operand_bytes(kernel: &Kernel, id: OpId, dots: &HashSet<OpId>, loads: &[OpId]) -> usize {
    let held = held(kernel, id, dots);
    let copied = |value: Value| kernel.defining_op(value).is_some_and(|def| loads.contains(&def));
    let inside = kernel.walk(kernel.ops[id].regions[0]);
    let stored = inside.iter().filter(|op| dots.contains(op)).map(|&dot| {
        let operands = kernel.ops[dot].operands[..2].iter();
        let stored = operands.filter(|v| !held.contains(v) && !copied(**v));
        stored.map(|&v| tile_bytes(kernel, v)).sum::<usize>()
    });
    held.iter().map(|&v| tile_bytes(kernel, v)).sum::<usize>() + stored.max().unwrap_or(0)
}

/// Operands of the products in the loop `id` that are made before it, beside it, and that only such products read: they can lie in shared
/// memory while it runs.
pub fn held(kernel: &Kernel, id: OpId, dots: &HashSet<OpId>) -> Vec<Value> {
    if kernel.ops[id].kind != OpKind::For {
        return Vec::new();
    }
    let Some(around) = kernel.regions.iter().find(|(_, r)| r.ops.contains(&id)).map(|r| r.1) else {
        return Vec::new();
    };
    let all = kernel.walk(kernel.body);
    let only_multiplied = |value: Value| {
        all.iter()
            .filter(|&&user| kernel.ops[user].operands.contains(&value))
            .all(|user| dots.contains(user) && kernel.ops[*user].operands[2] != value)
    };
    let mut found = Vec::new();
    for dot in kernel.walk(kernel.ops[id].regions[0]) {
        if !dots.contains(&dot) {
            continue;
        }
        for &value in &kernel.ops[dot].operands[..2] {
            let beside = kernel.defining_op(value).is_some_and(|def| around.ops.contains(&def));
            if beside && only_multiplied(value) && !found.contains(&value) {
                found.push(value);
            }
        }
    }
    found
}

/// Products of pipelined loops that can go on while the next iteration begins: nothing but the next product takes their sums, and all operands
/// are copied ahead.
pub fn in_flight(
    kernel: &Kernel,
    dots: &HashSet<OpId>,
    pipelines: &HashMap<OpId, Pipeline>,
) -> HashSet<OpId> {
    let mut found = HashSet::new();
    for (&id, pipeline) in pipelines {
        let region = kernel.ops[id].regions[0];
        let inside = kernel.walk(region);
        let here: Vec<OpId> = inside.iter().copied().filter(|op| dots.contains(op)).collect();
        let Some(end) = kernel.regions[region].ops.last().map(|&end| &kernel.ops[end]) else {
            continue;
        };
        let uses = |value: Value| {
            inside
                .iter()
                .map(|&op| kernel.ops[op].operands.iter().filter(|&&o| o == value).count())
                .sum::<usize>()
        };
        let copied =
            |value: Value| kernel.defining_op(value).is_some_and(|op| pipeline.loads.contains(&op));
        let carried = |&dot: &OpId| {
            let op = &kernel.ops[dot];
            let place = end.operands.iter().position(|&v| v == op.results[0]);
            let argument = place.map(|n| kernel.regions[region].arguments[n + 1]);
            kernel.regions[region].ops.contains(&dot)
                && argument == Some(op.operands[2])
                && uses(op.operands[2]) == 1
                && uses(op.results[0]) == 1
                && copied(op.operands[0])
                && copied(op.operands[1])
        };
        // One that is waited for ends the others' flight.
        if here.iter().all(carried) {
            found.extend(here);
        }
    }
    found
}
