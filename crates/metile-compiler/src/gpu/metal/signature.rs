//! What the kernel is passed, and the text around its body.

use super::printer::Printer;
use super::{EmitError, MAX_BUFFERS, MAX_SHARED_BYTES, Msl, types};
use metile_device::{Block, Op, PositionOp, Type, Value, WARP, Word};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Words, names and limits, before anything is printed.
#[derive(Debug)]
pub(super) struct Signature {
    entry: String,
    structure: String,
    arguments: Vec<u32>,
    buffers: Vec<u32>,
    shared_bytes: u32,
}

pub(super) fn plan(printer: &mut Printer<'_>) -> Result<Signature, EmitError> {
    let program = printer.program;
    let mut used = BTreeMap::new();
    words(&program.body, &mut used);
    let entry = printer.namer.name(&program.name);
    let structure = printer.namer.name("Arguments");
    let (mut arguments, mut buffers) = (Vec::new(), Vec::new());
    for (&n, &value) in &used {
        let Some(word) = program.words.get(n as usize) else { continue };
        let wanted = program.values[value].name.clone();
        let name = printer.namer.name(&wanted.unwrap_or_else(|| describe(*word)));
        printer.words.insert(n, name);
        match word.ty() {
            Type::Pointer { .. } => buffers.push(n),
            _ => arguments.push(n),
        }
    }
    let needed = buffers.len() + 1;
    if needed > MAX_BUFFERS {
        return Err(EmitError::Buffers { kernel: program.name.clone(), needed });
    }
    let needed = program.shared_bytes();
    if needed > MAX_SHARED_BYTES {
        let largest = program.shared.iter().map(|(_, b)| b).max_by_key(|b| b.bytes);
        let (buffer, largest) = largest.map_or((String::new(), 0), |b| (b.name.clone(), b.bytes));
        let kernel = program.name.clone();
        return Err(EmitError::SharedMemory { kernel, needed, buffer, largest });
    }
    for ((_, buffer), offset) in program.shared.iter().zip(program.shared_offsets()) {
        let name = printer.namer.name(&buffer.name);
        printer.line(format_args!("threadgroup uchar* const {name} = shared + {offset};"));
        printer.shared.push(name);
    }
    let shared_bytes = needed.next_multiple_of(16);
    Ok(Signature { entry, structure, arguments, buffers, shared_bytes })
}

/// The words that are read, each with the first value that it is.
fn words(block: &Block, used: &mut BTreeMap<u32, Value>) {
    for statement in &block.statements {
        if let (Op::Position(PositionOp::Word(n)), Some(&value)) =
            (&statement.op, statement.results.first())
        {
            used.entry(*n).or_insert(value);
        }
        for inner in &statement.blocks {
            words(inner, used);
        }
    }
}

fn describe(word: Word) -> String {
    match word {
        Word::GridExtent(axis) => format!("grid{axis}"),
        Word::Report => "report".to_owned(),
        Word::GridBarrier => "grid_barrier".to_owned(),
        Word::Pointer { parameter, array: 0, .. } => format!("p{parameter}"),
        Word::Pointer { parameter, array, .. } => format!("p{parameter}_array{array}"),
        Word::ListTable { parameter, array } => format!("p{parameter}_table{array}"),
        Word::ListLength { parameter } => format!("p{parameter}_length"),
        Word::Extent { parameter, axis } => format!("p{parameter}_extent{axis}"),
        Word::Stride { parameter, axis } => format!("p{parameter}_stride{axis}"),
        Word::Scalar { parameter, .. } => format!("p{parameter}_scalar"),
    }
}

impl Signature {
    pub fn finish(self, printer: Printer<'_>) -> Msl {
        let program = printer.program;
        let name = |n: &u32| printer.words.get(n).cloned().unwrap_or_default();
        let mut parameters = vec![format!("constant {}& arguments [[buffer(0)]]", self.structure)];
        for (n, word) in self.buffers.iter().enumerate() {
            let ty = types::value(program.words[*word as usize].ty()).0;
            parameters.push(format!("{ty} {} [[buffer({})]]", name(word), n + 1));
        }
        if self.shared_bytes > 0 {
            parameters.push("threadgroup uchar* shared [[threadgroup(0)]]".to_owned());
        }
        parameters.push("uint3 position [[threadgroup_position_in_grid]]".to_owned());
        parameters.push("uint3 groups [[threadgroups_per_grid]]".to_owned());
        parameters.push("uint lane [[thread_index_in_simdgroup]]".to_owned());
        parameters.push("uint warp [[simdgroup_index_in_threadgroup]]".to_owned());

        let mut fields = "    long blocks;\n".to_owned();
        for n in &self.arguments {
            // Writing to a String can't fail.
            let _ = writeln!(fields, "    ulong {};", name(n));
        }
        let threads = program.threads();
        // Apple's compiler has miscompiled kernels that declare exactly one SIMD group as their most, so
        // those declare nothing.
        let most = match threads > WARP {
            true => format!(", max_total_threads_per_threadgroup({threads})"),
            false => String::new(),
        };
        let Signature { entry, structure, .. } = &self;
        let parameters = parameters.join(",\n    ");
        let (body, functions, language) = printer.finish();
        let source = format!(
            "#include <metal_stdlib>\n\
             using namespace metal;\n\
             #if __METAL_VERSION__ >= 320\n\
             #pragma METAL fp math_mode(safe)\n\
             #endif\n\
             #pragma METAL fp contract(off)\n\
             \n{functions}\
             struct {structure} {{\n{fields}}};\n\
             \n\
             [[kernel{most}]] void {entry}(\n    {parameters}) {{\n    \
             const long block = long(position.y) * long(groups.x) + long(position.x);\n    \
             if (block >= arguments.blocks) return;\n\
             {body}}}\n"
        );
        Msl {
            source,
            entry: self.entry,
            threads,
            shared_bytes: self.shared_bytes,
            arguments: self.arguments,
            buffers: self.buffers,
            language,
        }
    }
}
