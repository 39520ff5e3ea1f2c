//! Diagrams of a kernel from the compiler's own structures: what is in the picture is what was compiled. Written as SVG
//! by hand, without the plotting library.

mod picture;

use metile_compiler::Optimized;
use metile_compiler::cpu::{Access, CHUNK, Dot, Form, Instr, Pass, Place};
use picture::{Look, Picture};
use std::collections::BTreeMap;

/// What a picture may show of the machine that the kernel is prepared for.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Threads of the pool.
    pub threads: usize,
    /// Vector instructions in use.
    pub simd: String,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum DiagramError {
    /// A kernel without a product has no product's memory to show.
    #[error("kernel `{0}` has no matrix product; name one that has, as `gemm`")]
    NoProduct(String),
}

/// The compilation pipeline: the program before, between and after the passes, and the CPU's form of it.
pub fn pipeline(optimized: &Optimized, form: &Form) -> String {
    let mut picture = Picture::new(&format!("Compilation of `{}`", form.name));
    picture.note(
        "Each box is a stage that ran; the counts are operations of Tile IR before and after it.",
    );
    let first = optimized.stages.first().map_or(0, |s| s.ops_before);
    let mut last = picture.boxed(
        0,
        "Tile IR, traced and verified",
        &[format!("{first} operations")],
        Look::Data,
    );
    let rounds = optimized.stages.iter().map(|s| s.round).max().unwrap_or(0);
    let least = optimized.stages.iter().map(|s| s.round).min().unwrap_or(0);
    for round in least..=rounds {
        let stages: Vec<_> = optimized.stages.iter().filter(|s| s.round == round).collect();
        for (n, stage) in stages.iter().enumerate() {
            let change = if stage.changed {
                format!("{} → {}", stage.ops_before, stage.ops_after)
            } else {
                "nothing to change".to_owned()
            };
            let look = if stage.changed { Look::Work } else { Look::Idle };
            let title = format!("round {round}: {}", stage.name);
            let at = picture.boxed(n, &title, &[change], look);
            picture.arrow(last, at);
            last = at;
        }
        picture.next_row();
    }
    let after = optimized.stages.last().map_or(first, |s| s.ops_after);
    let verified =
        picture.boxed(0, "Tile IR, verified again", &[format!("{after} operations")], Look::Data);
    picture.arrow(last, verified);
    let mut lines: Vec<String> =
        counts(&form.code).into_iter().map(|(name, n)| format!("{n} × {name}")).collect();
    lines.push(format!("{} registers, {} bytes of scratch", form.regs, form.scratch_bytes));
    let cpu = picture.boxed(1, "CPU form, the tile machine's program", &lines, Look::Data);
    picture.arrow(verified, cpu);
    picture.svg()
}

/// Instructions of a program by kind.
fn counts(code: &[Instr]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for instr in code {
        let name = match instr {
            Instr::Pass(_) => "pass over a tile",
            Instr::Dot(_) => "matrix product",
            Instr::Tile(_) => "operation on a whole tile",
            Instr::Jump(_)
            | Instr::JumpUnless(..)
            | Instr::ForStart { .. }
            | Instr::ForEnd { .. } => "jump or loop end",
            Instr::Barrier { .. } | Instr::Counter { .. } => "barrier or counter",
            Instr::LoadScalar { .. } | Instr::StoreScalar { .. } | Instr::LoadSlot { .. } => {
                "scalar access"
            }
            _ => "scalar or view",
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn products(form: &Form) -> impl Iterator<Item = &Dot> {
    form.code.iter().filter_map(|instr| match instr {
        Instr::Dot(dot) => Some(dot.as_ref()),
        _ => None,
    })
}

fn passes(form: &Form) -> impl Iterator<Item = &Pass> {
    form.code.iter().filter_map(|instr| match instr {
        Instr::Pass(pass) => Some(pass.as_ref()),
        _ => None,
    })
}

fn place(access: &Access) -> String {
    match &access.place {
        Place::Tensor { view, format, .. } => {
            format!("tensor view {view}, {format}, read where it lies")
        }
        Place::Slot { slot, .. } => format!("slot {slot:?} of the thread's scratch"),
    }
}

/// Where the operands of a product lie, level by level.
///
/// # Errors
/// If the kernel has no product.
pub fn memory(form: &Form, machine: &Machine) -> Result<String, DiagramError> {
    let Some(dot) = products(form).next() else {
        return Err(DiagramError::NoProduct(form.name.clone()));
    };
    let mut picture = Picture::new(&format!("Memory of a product in `{}`", form.name));
    picture.note(&format!(
        "One program's product, slot += a · b transposed, of [{}, {}] by [{}, {}]; {} threads, {}.",
        dot.m, dot.k, dot.n, dot.k, machine.threads, machine.simd
    ));
    let tensors: Vec<String> =
        form.views.iter().enumerate().map(|(n, view)| format!("view {n}: {view}")).collect();
    let memory = picture.boxed(0, "Main memory: tensors", &tensors, Look::Data);
    picture.next_row();
    let bytes = |rows: usize, access: &Access| rows * dot.k * access.dtype.bytes();
    let a = picture.boxed(
        0,
        &format!("a: {} × {}, {} bytes a block", dot.m, dot.k, bytes(dot.m, &dot.a)),
        &[place(&dot.a)],
        Look::Work,
    );
    let b = picture.boxed(
        1,
        &format!("b: {} × {}, {} bytes a block", dot.n, dot.k, bytes(dot.n, &dot.b)),
        &[place(&dot.b)],
        Look::Work,
    );
    picture.arrow(memory, a);
    picture.arrow(memory, b);
    picture.next_row();
    let kind = if dot.integer { "i32" } else { "f32" };
    let sum = picture.boxed(
        0,
        &format!("accumulator: {} × {} {kind}, {} bytes", dot.m, dot.n, 4 * dot.m * dot.n),
        &[
            format!(
                "slot {:?} of {} bytes of scratch, each thread's own",
                dot.slot, form.scratch_bytes
            ),
            format!("micro-kernels hold a part of it in {} registers", machine.simd),
        ],
        Look::Data,
    );
    picture.arrow(a, sum);
    picture.arrow(b, sum);
    picture.next_row();
    let stores = passes(form).filter(|pass| pass.only_stores).count();
    let back = picture.boxed(
        0,
        "Main memory: the result",
        &[format!(
            "{} passes follow or precede it, {stores} of which only store",
            passes(form).count()
        )],
        Look::Data,
    );
    picture.arrow(sum, back);
    Ok(picture.svg())
}

/// How programs of a grid, tiles and their elements are shared out over threads and vectors.
pub fn threads(form: &Form, machine: &Machine) -> String {
    let mut picture = Picture::new(&format!("Threads of `{}` on the CPU", form.name));
    picture.note("Programs are taken by whichever thread is done: they may take unlike times. A program runs on one thread.");
    let grid = picture.boxed(
        0,
        "Grid of programs",
        &[if form.persistent {
            "persistent: all are resident, barriers between them"
        } else {
            "independent of each other"
        }
        .to_owned()],
        Look::Data,
    );
    picture.next_row();
    let shown = machine.threads.min(4);
    let mut first = grid;
    for n in 0..shown {
        let last = n + 1 == shown && machine.threads > shown;
        let title = if last {
            format!("threads {n} to {}", machine.threads - 1)
        } else {
            format!("thread {n}")
        };
        let scratch = format!("{} bytes of scratch", form.scratch_bytes);
        let at = picture.boxed(n, &title, &[scratch], Look::Work);
        picture.arrow(grid, at);
        if n == 0 {
            first = at;
        }
    }
    picture.next_row();
    for (n, instr) in form
        .code
        .iter()
        .filter(|instr| matches!(instr, Instr::Pass(_) | Instr::Dot(_)))
        .take(12)
        .enumerate()
    {
        if n > 0 && n % 3 == 0 {
            picture.next_row();
        }
        let at = match instr {
            Instr::Pass(pass) => {
                let inner = pass.shape.sides().last().copied().unwrap_or(1);
                let chunks = inner.div_ceil(CHUNK);
                picture.boxed(
                    n % 3,
                    &format!("pass over {}", pass.shape),
                    &[
                        format!("{chunks} chunks of at most {CHUNK} elements a row"),
                        format!(
                            "{} steps, {} reductions, {} operands",
                            pass.steps.len(),
                            pass.reductions.len(),
                            pass.accesses.len()
                        ),
                        format!("each step over a chunk in {} vectors", machine.simd),
                    ],
                    Look::Idle,
                )
            }
            Instr::Dot(dot) => picture.boxed(
                n % 3,
                &format!("product {} × {} × {}", dot.m, dot.n, dot.k),
                &[format!("micro-kernels in {} vectors", machine.simd)],
                Look::Idle,
            ),
            _ => continue,
        };
        if n == 0 {
            picture.arrow(first, at);
        }
    }
    let all = passes(form).count() + products(form).count();
    if all > 12 {
        picture.note(&format!(
            "The first 12 of {all} passes and products are shown, in the order of the code."
        ));
    }
    picture.svg()
}
