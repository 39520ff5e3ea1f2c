//! Groups of elements that lie side by side, moved at once.

use super::Functions;
use crate::gpu::metal::types;
use metile_ir::DType;

/// An address space that groups are moved from or to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gpu::metal) enum Space {
    Device,
    Threadgroup,
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Space::Device => "device",
            Space::Threadgroup => "threadgroup",
        }
    }
    /// What functions for it are called after their name.
    fn ending(self) -> &'static str {
        match self {
            Space::Device => "",
            Space::Threadgroup => "_shared",
        }
    }
}

/// `load4(from, to)`: `width` elements.
pub(in crate::gpu::metal) fn load(
    functions: &mut Functions,
    space: Space,
    dtype: DType,
    width: u8,
) -> String {
    let (register, memory) = (types::register(dtype), types::memory(dtype));
    let (space, name) = (space.name(), format!("load{width}{}", space.ending()));
    functions.need(format!("{name}({register})"), || {
        let Shape { vector, words, part, each } = shape(dtype, width);
        let value = if dtype == DType::Bool { " != 0" } else { "" };
        let body = match words {
            1 => format!("for (uint k = 0; k < {width}; ++k) to[k] = v[k]{value};"),
            _ => format!(
                "for (uint w = 0; w < {words}; ++w) {{\n        \
                 const {part} p = as_type<{part}>(v[w]);\n        \
                 for (uint k = 0; k < {each}; ++k) to[{each} * w + k] = p[k]{value};\n    }}"
            ),
        };
        format!(
            "inline void {name}({space} const {memory}* from, thread {register}* to) {{\n    \
             const {vector} v = *({space} const {vector}*)from;\n    {body}\n}}"
        )
    });
    format!("metile::{name}")
}

/// `store4(to, from)`: `width` elements.
pub(in crate::gpu::metal) fn store(
    functions: &mut Functions,
    space: Space,
    dtype: DType,
    width: u8,
) -> String {
    let (register, memory) = (types::register(dtype), types::memory(dtype));
    let (space, name) = (space.name(), format!("store{width}{}", space.ending()));
    functions.need(format!("{name}({register})"), || {
        let Shape { vector, words, part, each } = shape(dtype, width);
        let value = |at: String| match dtype {
            DType::Bool => format!("uchar({at})"),
            _ => at,
        };
        let body = match words {
            1 => format!(
                "for (uint k = 0; k < {width}; ++k) v[k] = {};",
                value("from[k]".to_owned())
            ),
            _ => format!(
                "for (uint w = 0; w < {words}; ++w) {{\n        \
                 {part} p;\n        \
                 for (uint k = 0; k < {each}; ++k) p[k] = {};\n        \
                 v[w] = as_type<uint>(p);\n    }}",
                value(format!("from[{each} * w + k]"))
            ),
        };
        format!(
            "inline void {name}({space} {memory}* to, thread const {register}* from) {{\n    \
             {vector} v;\n    {body}\n    \
             *({space} {vector}*)to = v;\n}}"
        )
    });
    format!("metile::{name}")
}

/// How a group is moved: as a vector of its elements, or, where there is no vector of so many, of words that
/// hold several each.
struct Shape {
    vector: String,
    words: usize,
    part: String,
    each: usize,
}

fn shape(dtype: DType, width: u8) -> Shape {
    let memory = types::memory(dtype);
    if width <= 4 {
        let vector = format!("{memory}{width}");
        return Shape { vector, words: 1, part: String::new(), each: usize::from(width) };
    }
    let words = usize::from(width) * dtype.bytes() / 4;
    let each = 4 / dtype.bytes().clamp(1, 4);
    Shape { vector: format!("uint{words}"), words, part: format!("{memory}{each}"), each }
}
