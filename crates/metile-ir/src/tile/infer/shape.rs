//! Operations that rearrange elements.

use super::Operands;
use crate::diagnostic::Diagnostic;
use crate::tile::{OpKind, Shape, TileType};

pub(super) fn result(
    kind: &OpKind,
    args: &Operands<'_>,
    result: Option<TileType>,
) -> Result<TileType, Diagnostic> {
    match kind {
        OpKind::Broadcast => broadcast(args, args.wanted(result)?),
        OpKind::Reshape => reshape(args, args.wanted(result)?),
        OpKind::Transpose(permutation) => transpose(args, permutation),
        OpKind::Slice { axis, start, step } => {
            slice(args, *axis, *start, *step, args.wanted(result)?)
        }
        OpKind::Cat { axis } => cat(args, *axis),
        OpKind::Gather { axis } => gather(args, *axis),
        _ => Err(args.error("does not rearrange elements")),
    }
}

fn same_dtype(args: &Operands<'_>, from: TileType, wanted: TileType) -> Result<(), Diagnostic> {
    if from.dtype == wanted.dtype {
        return Ok(());
    }
    Err(args.error(format!("keeps the dtype {}, not {}", from.dtype, wanted.dtype)))
}

fn broadcast(args: &Operands<'_>, wanted: TileType) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let from = args.tile(0)?;
    same_dtype(args, from, wanted)?;
    if from.shape.broadcast(&wanted.shape) != Some(wanted.shape) {
        return Err(args
            .error(format!("can't stretch {} to {}", from.shape, wanted.shape))
            .hint("axes are matched from the last; sides of 1 and missing axes stretch"));
    }
    Ok(wanted)
}

fn reshape(args: &Operands<'_>, wanted: TileType) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let from = args.tile(0)?;
    same_dtype(args, from, wanted)?;
    let (has, wants) = (from.shape.elements(), wanted.shape.elements());
    if has != wants {
        return Err(args.error(format!(
            "can't make {} ({wants} elements) of {} ({has} elements)",
            wanted.shape, from.shape
        )));
    }
    Ok(wanted)
}

fn transpose(args: &Operands<'_>, permutation: &[u8]) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let from = args.tile(0)?;
    let rank = from.shape.rank();
    let mut seen = permutation.to_vec();
    seen.sort_unstable();
    if seen.len() != rank || seen.iter().enumerate().any(|(i, &axis)| i != axis as usize) {
        return Err(args
            .error(format!("can't order the axes of {} as {permutation:?}", from.shape))
            .hint(format!("each of the {rank} axes is named once")));
    }
    let sides: Vec<usize> = permutation.iter().map(|&a| from.shape.side(a as usize)).collect();
    Ok(TileType::new(from.dtype, shape(args, &sides)?))
}

fn slice(
    args: &Operands<'_>,
    axis: u8,
    start: u32,
    step: u32,
    wanted: TileType,
) -> Result<TileType, Diagnostic> {
    args.expect_count(1)?;
    let from = args.tile(0)?;
    same_dtype(args, from, wanted)?;
    let axis = args.axis(axis, from.shape.rank())?;
    if step == 0 {
        return Err(args.error("has a step of 0").hint("the step is at least 1"));
    }
    let mut sides = from.shape.sides();
    let kept = wanted.shape.side(axis) as u64;
    let last = u64::from(start) + (kept - 1) * u64::from(step);
    if last >= sides[axis] as u64 {
        return Err(args.error(format!(
            "reaches element {last} of axis {axis}, which has {} elements",
            sides[axis]
        )));
    }
    sides[axis] = wanted.shape.side(axis);
    if sides != wanted.shape.sides() {
        return Err(
            args.error(format!("of {} along axis {axis} can't give {}", from.shape, wanted.shape))
        );
    }
    Ok(wanted)
}

fn cat(args: &Operands<'_>, axis: u8) -> Result<TileType, Diagnostic> {
    let first = args.tile(0)?;
    let at = args.axis(axis, first.shape.rank())?;
    let mut sides = first.shape.sides();
    for n in 1..args.values.len() {
        let next = args.tile(n)?;
        let mut other = next.shape.sides();
        let fits = next.dtype == first.dtype && other.len() == sides.len();
        if fits {
            other[at] = sides[at];
        }
        if !fits || other != sides {
            return Err(args
                .error(format!("can't put {next} after {first} along axis {axis}"))
                .hint("dtypes and all other sides must be equal"));
        }
        sides[at] = sides[at].saturating_add(next.shape.side(at));
    }
    Ok(TileType::new(first.dtype, shape(args, &sides)?))
}

fn gather(args: &Operands<'_>, axis: u8) -> Result<TileType, Diagnostic> {
    args.expect_count(2)?;
    let (from, index) = (args.tile(0)?, args.tile(1)?);
    let axis = args.axis(axis, from.shape.rank())?;
    if !index.dtype.is_int() {
        return Err(args.error(format!("needs integer indices, not {}", index.dtype)));
    }
    let mut sides = from.shape.sides();
    sides[axis] = index.shape.side(axis);
    if sides != index.shape.sides() {
        return Err(args
            .error(format!(
                "can't index {} along axis {axis} with indices of shape {}",
                from.shape, index.shape
            ))
            .hint("tile and indices agree on every other axis"));
    }
    Ok(TileType::new(from.dtype, index.shape))
}

fn shape(args: &Operands<'_>, sides: &[usize]) -> Result<Shape, Diagnostic> {
    Shape::new(sides).map_err(|why| args.error(format!("can't give this: {why}")))
}
