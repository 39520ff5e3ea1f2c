//! Names of types.

use metile_device::Type;
use metile_ir::DType;

/// What a register of `dtype` is.
pub fn register(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "char",
        DType::U8 => "uchar",
        DType::I16 => "short",
        DType::U16 => "ushort",
        DType::I32 => "int",
        DType::U32 => "uint",
        DType::I64 => "long",
        DType::U64 => "ulong",
        DType::F16 => "half",
        DType::BF16 => "bfloat",
        DType::F32 => "float",
    }
}

/// What lies in memory: truth values are bytes there.
pub fn memory(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "uchar",
        other => register(other),
    }
}

/// The unsigned type that arithmetic wraps in: at least 32 bits, so that nothing is promoted to a signed one.
pub fn wrapping(dtype: DType) -> &'static str {
    if dtype.bytes() == 8 { "ulong" } else { "uint" }
}

/// The unsigned type of the same width.
pub fn bits(dtype: DType) -> &'static str {
    match dtype.bytes() {
        1 => "uchar",
        2 => "ushort",
        4 => "uint",
        _ => "ulong",
    }
}

/// A pointer into the device's memory.
pub fn pointer(dtype: DType, writable: bool) -> String {
    let constant = if writable { "" } else { "const " };
    format!("device {constant}{}*", memory(dtype))
}

/// The type of one register, pointer or matrix of a value, and how many there are.
pub fn value(ty: Type) -> (String, u32) {
    match ty {
        Type::Registers { dtype, count } => (register(dtype).to_owned(), count),
        Type::Pointer { dtype, writable } => (pointer(dtype, writable), 1),
        Type::Fragment { dtype, rows, columns, count } => {
            (format!("simdgroup_{}{rows}x{columns}", register(dtype)), count)
        }
        // Copies are refused before a token could be declared.
        Type::Token => ("uint".to_owned(), 1),
    }
}
