//! A launch's arguments as the words that a program of Device IR takes.

use metile_compiler::gpu::Class;
use metile_device::Word;
use metile_ir::interp::{Argument, TensorArgument};
use metile_ir::tile::Kernel;

/// Where a launch's memory lies, as the device that runs it has addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses<'a> {
    /// The first byte of each buffer that arguments name.
    pub buffers: &'a [u64],
    /// Where failed assertions are reported.
    pub report: u64,
    /// The counters of grid barriers.
    pub grid_barrier: u64,
    /// The first byte of each table of addresses, in the order of [`tables`].
    pub tables: &'a [u64],
}

/// The tables of addresses that `words` point to, in order: each holds an address for every tensor of a list.
pub(crate) fn tables(words: &[Word], arguments: &[Argument], buffers: &[u64]) -> Vec<Vec<u64>> {
    let table = |word: &Word| match *word {
        Word::ListTable { parameter, array } => {
            let tensors = match arguments.get(parameter as usize) {
                Some(Argument::List(tensors)) => &tensors[..],
                _ => &[],
            };
            Some(tensors.iter().map(|t| address(t, array, buffers).unwrap_or(0)).collect())
        }
        _ => None,
    };
    words.iter().filter_map(table).collect()
}

/// The words of a launch. `arguments` were checked against the kernel's parameters.
///
/// # Errors
/// If the words are not of this kernel.
pub(crate) fn pack(
    words: &[Word],
    grid: [u64; 3],
    arguments: &[Argument],
    addresses: &Addresses<'_>,
) -> Result<Vec<u64>, String> {
    let mut tables = addresses.tables.iter();
    let mut packed = Vec::with_capacity(words.len());
    for word in words {
        let value = match *word {
            Word::GridExtent(axis) => grid.get(axis as usize).copied(),
            Word::Report => Some(addresses.report),
            Word::GridBarrier => Some(addresses.grid_barrier),
            Word::Pointer { parameter, array, .. } => {
                tensor(arguments, parameter).and_then(|t| address(t, array, addresses.buffers))
            }
            Word::ListTable { .. } => tables.next().copied(),
            Word::ListLength { parameter } => match arguments.get(parameter as usize) {
                Some(Argument::List(tensors)) => Some(tensors.len() as u64),
                _ => None,
            },
            Word::Extent { parameter, axis } => {
                tensor(arguments, parameter).and_then(|t| t.shape.get(axis as usize).copied())
            }
            Word::Stride { parameter, axis } => tensor(arguments, parameter)
                .and_then(|t| t.strides.get(axis as usize).map(|&s| s as u64)),
            Word::Scalar { parameter, .. } => match arguments.get(parameter as usize) {
                Some(Argument::Scalar(scalar)) => Some(scalar.bits()),
                _ => None,
            },
        };
        packed.push(value.ok_or_else(|| format!("the launch has nothing for {word:?}"))?);
    }
    Ok(packed)
}

/// What a kernel for `arguments` may assume of each parameter.
///
/// # Errors
/// What is wrong, if the tensors of a list have different strides.
pub(crate) fn classes(
    kernel: &Kernel,
    arguments: &[Argument],
    buffers: &[u64],
) -> Result<Vec<Class>, String> {
    let class = |(n, argument): (usize, &Argument)| {
        let tensors = match argument {
            Argument::Scalar(_) => return Ok(Class::default()),
            Argument::Tensor(tensor) => std::slice::from_ref(tensor),
            Argument::List(tensors) => &tensors[..],
        };
        let Some(first) = tensors.first() else { return Ok(Class::default()) };
        if let Some(odd) = tensors.iter().find(|t| t.strides != first.strides) {
            return Err(format!(
                "`{}` is a list of tensors with different strides, {:?} and {:?}; on a GPU they are alike",
                kernel.parameter_name(n),
                first.strides,
                odd.strides
            ));
        }
        let addresses: Vec<u64> = tensors
            .iter()
            .flat_map(|t| (0..t.parts.len()).map(|array| address(t, array as u8, buffers)))
            .map(Option::unwrap_or_default)
            .collect();
        Ok(Class::of(&first.shape, &first.strides, &addresses))
    };
    arguments.iter().enumerate().map(class).collect()
}

/// The tensor of a parameter; of a list the first, whose shape and strides are those of all.
fn tensor(arguments: &[Argument], parameter: u16) -> Option<&TensorArgument> {
    match arguments.get(parameter as usize)? {
        Argument::Tensor(tensor) => Some(tensor),
        Argument::List(tensors) => tensors.first(),
        Argument::Scalar(_) => None,
    }
}

/// Where the array lies that a word points to, if it points to one of a tensor.
#[cfg(any(target_vendor = "apple", metile_check_metal))]
pub(crate) fn part(word: Word, arguments: &[Argument]) -> Option<metile_ir::interp::Part> {
    match word {
        Word::Pointer { parameter, array, .. } => {
            tensor(arguments, parameter)?.parts.get(array as usize).copied()
        }
        _ => None,
    }
}

fn address(tensor: &TensorArgument, array: u8, buffers: &[u64]) -> Option<u64> {
    let part = tensor.parts.get(array as usize)?;
    buffers.get(part.buffer)?.checked_add(part.byte_offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metile_ir::dtype::DType;
    use metile_ir::interp::Part;
    use metile_ir::scalar::Scalar;

    #[test]
    fn words_are_packed_in_their_order() {
        let part = |buffer, byte_offset| Part { buffer, byte_offset };
        let tensor = |parts| TensorArgument { parts, shape: vec![3, 5], strides: vec![-7, 1] };
        let list =
            vec![tensor(vec![part(0, 16), part(1, 8)]), tensor(vec![part(1, 32), part(0, 0)])];
        let arguments = [
            Argument::Tensor(tensor(vec![part(1, 4)])),
            Argument::Scalar(Scalar::f32(-1.0)),
            Argument::List(list),
        ];
        let words = [
            Word::GridExtent(2),
            Word::Report,
            Word::GridBarrier,
            Word::Pointer { parameter: 0, array: 0, dtype: DType::F32, writable: true },
            Word::Extent { parameter: 0, axis: 1 },
            Word::Stride { parameter: 0, axis: 0 },
            Word::Scalar { parameter: 1, dtype: DType::F32 },
            Word::ListTable { parameter: 2, array: 0 },
            Word::ListTable { parameter: 2, array: 1 },
            Word::ListLength { parameter: 2 },
            Word::Extent { parameter: 2, axis: 0 },
        ];
        let buffers = [1000, 2000];
        let lists = tables(&words, &arguments, &buffers);
        assert_eq!(lists, [vec![1016, 2032], vec![2008, 1000]]);
        let addresses =
            Addresses { buffers: &buffers, report: 1, grid_barrier: 2, tables: &[3000, 4000] };
        let packed = pack(&words, [7, 8, 9], &arguments, &addresses).unwrap();
        let minus_seven = -7i64 as u64;
        let expected = [9, 1, 2, 2004, 5, minus_seven, 0xbf80_0000, 3000, 4000, 2, 3];
        assert_eq!(packed, expected);
        let none = [Word::Extent { parameter: 1, axis: 0 }];
        assert!(pack(&none, [1; 3], &arguments, &addresses).is_err());
    }
}
