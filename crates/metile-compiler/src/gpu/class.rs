//! What a compiled kernel assumes of its arguments. Launches whose arguments are alike in this share the code;
//! extents, strides and positions stay run-time values.

use metile_ir::tile::{Kernel, Type};

/// Extents and strides are known to be multiples of this, or of nothing.
pub const MULTIPLE: u64 = 16;

/// What is assumed of one parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class {
    /// The last axis has stride 1.
    pub unit: bool,
    /// Every array begins at a multiple of 16 bytes.
    pub aligned: bool,
    /// Axes, as bits, whose extent is a multiple of [`MULTIPLE`].
    pub extents: u8,
    /// Axes, as bits, whose stride is a multiple of [`MULTIPLE`] elements.
    pub strides: u8,
}

impl Class {
    /// The class of a tensor of these extents and strides (in elements; in blocks for packed formats) whose arrays begin at
    /// these addresses.
    pub fn of(shape: &[u64], strides: &[i64], addresses: &[u64]) -> Class {
        let bits = |holds: &dyn Fn(usize) -> bool| {
            (0..shape.len()).filter(|&axis| holds(axis)).fold(0u8, |all, axis| all | 1 << axis)
        };
        Class {
            unit: strides.last() == Some(&1),
            aligned: addresses.iter().all(|a| a.is_multiple_of(16)),
            extents: bits(&|axis| shape[axis].is_multiple_of(MULTIPLE)),
            strides: bits(&|axis| strides[axis].unsigned_abs().is_multiple_of(MULTIPLE)),
        }
    }
}

/// The class of every parameter; [`Class::default`] for scalars.
pub type Classes = Vec<Class>;

/// Classes that assume nothing.
pub fn general(kernel: &Kernel) -> Classes {
    vec![Class::default(); kernel.parameters.len()]
}

/// Classes of contiguous tensors whose extents and strides are round.
pub fn round(kernel: &Kernel) -> Classes {
    let class = |&parameter: &metile_ir::tile::Value| match kernel.ty(parameter) {
        Type::Tensor(_) | Type::TensorList(_) => {
            Class { unit: true, aligned: true, extents: !0, strides: !0 }
        }
        Type::Tile(_) => Class::default(),
    };
    kernel.parameters.iter().map(class).collect()
}
