//! Views, loads, stores and atomics.

use super::Operands;
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, Format};
use crate::tile::{Access, AtomicOp, OpKind, Shape, TensorType, TileType, Type};

pub(super) fn results(
    kind: &OpKind,
    args: &Operands<'_>,
    result: Option<TileType>,
) -> Result<Vec<Type>, Diagnostic> {
    match kind {
        OpKind::Dim { axis } => {
            args.expect_count(1)?;
            args.axis(*axis, args.tensor(0)?.rank as usize)?;
            Ok(vec![Type::Tile(TileType::scalar(DType::I64))])
        }
        OpKind::Narrow { .. } | OpKind::Pick { .. } | OpKind::ListItem => {
            view(kind, args).map(|t| vec![Type::Tensor(t)])
        }
        OpKind::Load { masked } => load(args, *masked),
        OpKind::LoadTile => load_tile(args, args.wanted(result)?),
        OpKind::Store { masked } => {
            let tensor = writable(args)?;
            let after = coordinates_end(args, tensor)?;
            let shape = coordinates(args, tensor)?;
            args.expect_count(after + 1 + usize::from(*masked))?;
            if *masked {
                mask(args, after, shape)?;
            }
            value(args, args.values.len() - 1, tensor, shape)?;
            Ok(Vec::new())
        }
        OpKind::StoreTile => {
            let tensor = writable(args)?;
            let after = origin(args, tensor)?;
            args.expect_count(after + 1)?;
            let tile = args.tile(after)?;
            rectangle(args, tensor, tile)?;
            value(args, after, tensor, tile.shape)?;
            Ok(Vec::new())
        }
        OpKind::AtomicRmw(op) => atomic(args, Some(*op)),
        _ => atomic(args, None),
    }
}

fn view(kind: &OpKind, args: &Operands<'_>) -> Result<TensorType, Diagnostic> {
    if matches!(kind, OpKind::ListItem) {
        args.expect_count(2)?;
        args.scalar(1, DType::I64)?;
        let ty = args.kernel.ty(args.get(0)?);
        return match ty {
            Type::TensorList(item) => Ok(item),
            _ => Err(args.error(format!("picks from a list of tensors, not a {ty}"))),
        };
    }
    let mut tensor = args.tensor(0)?;
    let rank = tensor.rank as usize;
    if let OpKind::Narrow { axis } = kind {
        args.expect_count(3)?;
        args.scalar(1, DType::I64)?;
        args.scalar(2, DType::I64)?;
        let axis = args.axis(*axis, rank)?;
        return whole_blocks(args, tensor, axis).map(|()| tensor);
    }
    if let OpKind::Pick { axis } = kind {
        args.expect_count(2)?;
        args.scalar(1, DType::I64)?;
        let axis = args.axis(*axis, rank)?;
        whole_blocks(args, tensor, axis)?;
        if rank == 1 {
            return Err(args
                .error("would leave a tensor without axes")
                .hint("load the element instead"));
        }
        tensor.rank -= 1;
    }
    Ok(tensor)
}

/// The last axis of a packed tensor is read in blocks, so no view may cut it.
fn whole_blocks(args: &Operands<'_>, tensor: TensorType, axis: usize) -> Result<(), Diagnostic> {
    if matches!(tensor.format, Format::Packed(_)) && axis + 1 == tensor.rank as usize {
        return Err(args
            .error(format!("would cut the packed axis of a {}", tensor.format))
            .hint("the last axis of a packed tensor stays whole; load the part that is needed"));
    }
    Ok(())
}

fn readable(args: &Operands<'_>) -> Result<TensorType, Diagnostic> {
    let tensor = args.tensor(0)?;
    if tensor.access == Access::Counter {
        return Err(args.error("can't touch counters").hint("counters have `add` and `wait` only"));
    }
    Ok(tensor)
}

fn writable(args: &Operands<'_>) -> Result<TensorType, Diagnostic> {
    let tensor = readable(args)?;
    if tensor.access == Access::Read {
        return Err(args
            .error("writes a tensor that is only read")
            .hint("declare the parameter as `&mut Tensor<…>`"));
    }
    Ok(tensor)
}

fn coordinates_end(args: &Operands<'_>, tensor: TensorType) -> Result<usize, Diagnostic> {
    let rank = tensor.rank as usize;
    if args.values.len() < 1 + rank {
        return Err(args.error(format!("needs {rank} coordinates for a tensor of rank {rank}")));
    }
    Ok(1 + rank)
}

fn coordinates(args: &Operands<'_>, tensor: TensorType) -> Result<Shape, Diagnostic> {
    let mut shape = None;
    for n in 1..coordinates_end(args, tensor)? {
        let ty = args.tile(n)?;
        if !ty.dtype.is_int() {
            return Err(args
                .error(format!("has a coordinate of type {}", ty.dtype))
                .hint("coordinates are integers"));
        }
        let first = *shape.get_or_insert(ty.shape);
        if ty.shape != first {
            return Err(args.error(format!("has coordinates of shapes {first} and {}", ty.shape)));
        }
    }
    shape.ok_or_else(|| args.error("has no coordinates"))
}

fn origin(args: &Operands<'_>, tensor: TensorType) -> Result<usize, Diagnostic> {
    let end = coordinates_end(args, tensor)?;
    for n in 1..end {
        args.scalar(n, DType::I64)?;
    }
    Ok(end)
}

fn rectangle(args: &Operands<'_>, tensor: TensorType, tile: TileType) -> Result<(), Diagnostic> {
    if tile.shape.rank() == tensor.rank as usize {
        return Ok(());
    }
    Err(args
        .error(format!(
            "moves a tile of rank {} in a tensor of rank {}",
            tile.shape.rank(),
            tensor.rank
        ))
        .hint("the tile has one side per axis of the tensor; use a side of 1, or `pick` an axis"))
}

fn mask(args: &Operands<'_>, n: usize, shape: Shape) -> Result<(), Diagnostic> {
    let found = args.tile(n)?;
    if found == TileType::new(DType::Bool, shape) {
        return Ok(());
    }
    Err(args.error(format!("needs a bool mask of shape {shape}, not {found}")))
}

fn value(
    args: &Operands<'_>,
    n: usize,
    tensor: TensorType,
    shape: Shape,
) -> Result<(), Diagnostic> {
    let (found, wanted) = (args.tile(n)?, TileType::new(tensor.format.loaded(), shape));
    if found == wanted {
        return Ok(());
    }
    let error = args.error(format!("puts {found} where the tensor holds {wanted}"));
    Err(if found.dtype == wanted.dtype {
        error.hint("the value has the shape of the coordinates")
    } else {
        error.hint(format!("convert it with `.to::<{}>()`", wanted.dtype))
    })
}

fn load(args: &Operands<'_>, masked: bool) -> Result<Vec<Type>, Diagnostic> {
    let tensor = readable(args)?;
    let after = coordinates_end(args, tensor)?;
    let shape = coordinates(args, tensor)?;
    args.expect_count(after + 1 + usize::from(masked))?;
    if masked {
        mask(args, after, shape)?;
    }
    let dtype = tensor.format.loaded();
    args.scalar(args.values.len() - 1, dtype)?;
    Ok(vec![Type::Tile(TileType::new(dtype, shape))])
}

fn load_tile(args: &Operands<'_>, wanted: TileType) -> Result<Vec<Type>, Diagnostic> {
    let tensor = readable(args)?;
    let after = origin(args, tensor)?;
    args.expect_count(after + 1)?;
    args.scalar(after, tensor.format.loaded())?;
    rectangle(args, tensor, wanted)?;
    if wanted.dtype != tensor.format.loaded() {
        return Err(args.error(format!("gives {}, not {}", tensor.format.loaded(), wanted.dtype)));
    }
    Ok(vec![Type::Tile(wanted)])
}

fn atomic(args: &Operands<'_>, op: Option<AtomicOp>) -> Result<Vec<Type>, Diagnostic> {
    let tensor = writable(args)?;
    let dtype = tensor.format.loaded();
    let word = dtype.bits() >= 32;
    let fits = match op {
        Some(AtomicOp::Add | AtomicOp::Exchange) | None => word,
        Some(AtomicOp::Max | AtomicOp::Min) => word && dtype.is_int(),
    };
    if !fits {
        return Err(args.error(format!("is not defined on {dtype}")).hint(
            "add, exchange and cas take i32, u32, i64, u64 and f32; max and min take the integers of these",
        ));
    }
    let after = coordinates_end(args, tensor)?;
    let shape = coordinates(args, tensor)?;
    let values = if op.is_none() { 2 } else { 1 };
    args.expect_count(after + values)?;
    for n in after..after + values {
        value(args, n, tensor, shape)?;
    }
    Ok(vec![Type::Tile(TileType::new(dtype, shape))])
}
