//! Arguments of a call, bound to the storages they lie in and checked against each other.

use crate::overlap::{Region, overlap, overlaps_itself};
use metile_ir::Format;
use metile_ir::interp;
use metile_ir::tile::{Access, Kernel};
use metile_lang::kernel::Argument;
use metile_lang::tensor::{Part, RawTensor, Storage};
use std::sync::Arc;

/// The arguments of a call and every storage that one lies in.
#[derive(Debug)]
pub(crate) struct Bindings {
    /// The arguments; tensors name their storage by its index.
    pub arguments: Vec<interp::Argument>,
    /// Each storage once, and whether the launch writes it.
    pub storages: Vec<(Arc<dyn Storage>, bool)>,
}

impl Bindings {
    /// Binds `arguments` to `kernel`'s parameters.
    ///
    /// # Errors
    /// What is wrong, if a tensor that the launch writes shares memory with another argument or with
    /// itself.
    pub fn new(kernel: &Kernel, arguments: &[Argument]) -> Result<Bindings, String> {
        check_overlap(kernel, arguments)?;
        let mut storages = Vec::new();
        let arguments = arguments.iter().map(|argument| bind(argument, &mut storages)).collect();
        Ok(Bindings { arguments, storages })
    }
}

fn bind(argument: &Argument, storages: &mut Vec<(Arc<dyn Storage>, bool)>) -> interp::Argument {
    match argument {
        Argument::Scalar(scalar) => interp::Argument::Scalar(*scalar),
        Argument::Tensor(tensor, access) => {
            interp::Argument::Tensor(bind_tensor(tensor, *access, storages))
        }
        Argument::List(tensors) => interp::Argument::List(
            tensors.iter().map(|t| bind_tensor(t, Access::Read, storages)).collect(),
        ),
    }
}

fn bind_tensor(
    tensor: &RawTensor,
    access: Access,
    storages: &mut Vec<(Arc<dyn Storage>, bool)>,
) -> interp::TensorArgument {
    let written = access != Access::Read;
    let parts = tensor.parts.iter().map(|part| {
        let known = storages.iter().position(|(s, _)| Arc::ptr_eq(s, &part.storage));
        let buffer = known.unwrap_or_else(|| {
            storages.push((part.storage.clone(), false));
            storages.len() - 1
        });
        storages[buffer].1 |= written;
        interp::Part { buffer, byte_offset: part.byte_offset }
    });
    interp::TensorArgument {
        parts: parts.collect(),
        shape: tensor.shape.iter().map(|&s| s as u64).collect(),
        strides: tensor.strides.clone(),
    }
}

/// The bytes that a tensor's part covers.
fn region(tensor: &RawTensor, n: usize, part: &Part) -> Region {
    let (mut extents, width): (Vec<u64>, usize) = match tensor.format {
        Format::Plain(d) => (tensor.shape.iter().map(|&s| s as u64).collect(), d.bytes()),
        Format::Packed(p) => {
            let extents = tensor.shape.iter().map(|&s| s as u64).collect();
            (extents, p.block_bytes().get(n).copied().unwrap_or(1))
        }
    };
    if let (Format::Packed(p), Some(last)) = (tensor.format, extents.last_mut()) {
        *last /= p.block_elements() as u64;
    }
    let strides = tensor.strides.iter().map(|&s| i128::from(s) * width as i128).collect();
    Region { offset: i128::from(part.byte_offset), extents, strides, width: width as u64 }
}

/// A tensor that the launch writes shares no byte with any other argument, nor an element with itself.
fn check_overlap(kernel: &Kernel, arguments: &[Argument]) -> Result<(), String> {
    let mut seen: Vec<(usize, bool, Arc<dyn Storage>, Region)> = Vec::new();
    let name = |n: usize| kernel.parameter_name(n);
    for (n, argument) in arguments.iter().enumerate() {
        let (tensors, written) = match argument {
            Argument::Scalar(_) => continue,
            Argument::Tensor(tensor, access) => {
                (std::slice::from_ref(tensor), *access != Access::Read)
            }
            Argument::List(tensors) => (&tensors[..], false),
        };
        for tensor in tensors {
            for (p, part) in tensor.parts.iter().enumerate() {
                let region = region(tensor, p, part);
                if written && overlaps_itself(&region) {
                    return Err(format!(
                        "`{}` is written, but two of its indices share an element (strides {:?})",
                        name(n),
                        tensor.strides
                    ));
                }
                let clash = seen.iter().find(|(_, other_written, storage, other)| {
                    (written || *other_written)
                        && Arc::ptr_eq(storage, &part.storage)
                        && overlap(&region, other)
                });
                if let Some((other, ..)) = clash.filter(|(other, ..)| *other != n || written) {
                    return Err(format!(
                        "`{}` and `{}` share memory, and one of them is written; pass one `&mut Tensor` to work in place",
                        name(*other),
                        name(n)
                    ));
                }
                seen.push((n, written, part.storage.clone(), region));
            }
        }
    }
    Ok(())
}
