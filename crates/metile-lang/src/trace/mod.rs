//! The tracer: while a kernel's body runs once on the host, every operation of the language is
//! recorded here.
//!
//! There is one trace at a time per thread. An operation that breaks a rule records an error and
//! gives a value marked broken; operations on broken values are silent, so that one mistake is
//! reported once and the rest of the body is still looked at.

mod scope;

pub(crate) use scope::{Loop, Slot};

use metile_ir::tile::{Builder, Kernel, OpKind, Shape, TileType, Type, Value, verify::MAX_OPS};
use metile_ir::{DType, Diagnostic, Scalar, Snippet, SourceFile, Span};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::Location;

/// Where in the user's source an operation was called.
pub(crate) type At = &'static Location<'static>;

/// The caller of the `#[track_caller]` function this is called from.
#[track_caller]
pub(crate) fn here() -> At {
    Location::caller()
}

/// A traced value without its Rust type; `value` is `None` if what made it broke a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw {
    pub(crate) value: Option<Value>,
    trace: u32,
}

/// The state of a trace.
pub(crate) struct Tracer {
    pub(crate) builder: Builder,
    scopes: Vec<scope::Scope>,
    slots: Vec<scope::SlotData>,
    /// Region arguments that turned out never to change, and what they stand for.
    forwards: HashMap<Value, Value>,
    errors: Vec<Diagnostic>,
    files: HashMap<String, u32>,
    helpers: Vec<(&'static str, At)>,
    number: u32,
}

thread_local! {
    static TRACER: RefCell<Option<Tracer>> = const { RefCell::new(None) };
    static TRACES: Cell<u32> = const { Cell::new(0) };
}

/// Runs `f` on the trace of this thread.
///
/// # Panics
/// Outside of a kernel: operations of the language have no meaning there.
#[track_caller]
pub(crate) fn with<R>(f: impl FnOnce(&mut Tracer) -> R) -> R {
    TRACER.with_borrow_mut(|tracer| match tracer {
        Some(tracer) => f(tracer),
        None => panic!(
            "an operation of the metile language was called outside of a function marked #[kernel]"
        ),
    })
}

/// What a finished trace leaves.
pub(crate) struct Traced {
    pub(crate) kernel: Kernel,
    pub(crate) errors: Vec<Diagnostic>,
}

/// Traces `body` as the kernel `name`. A panic in the body becomes an error.
pub(crate) fn trace(name: &str, persistent: bool, body: impl FnOnce()) -> Traced {
    let number = TRACES.get().wrapping_add(1);
    TRACES.set(number);
    let mut builder = Builder::new(name);
    builder.kernel_mut().persistent = persistent;
    let root = builder.region();
    let tracer = Tracer {
        builder,
        scopes: vec![scope::Scope::root(root)],
        slots: Vec::new(),
        forwards: HashMap::new(),
        errors: Vec::new(),
        files: HashMap::new(),
        helpers: Vec::new(),
        number,
    };
    let outer = TRACER.replace(Some(tracer));
    // The closure's state is dropped with the trace; nothing that a panic could leave half-done is kept.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    let Some(mut tracer) = TRACER.replace(outer) else {
        return Traced {
            kernel: Kernel::new(name),
            errors: vec![Diagnostic::error("the trace was lost")],
        };
    };
    if let Err(payload) = outcome {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        let error = Diagnostic::error(format!("the body panicked while it was traced: {text}"));
        let last = tracer.builder.span();
        tracer.errors.push(error.at(last).label("the last operation traced before"));
    }
    tracer.finish()
}

impl Tracer {
    fn finish(mut self) -> Traced {
        self.builder.set_span(None);
        self.builder.control(OpKind::Return, &[], Vec::new(), &[]);
        let mut kernel = self.builder.finish();
        let forwards = &self.forwards;
        let resolve = |mut value: Value| {
            while let Some(&next) = forwards.get(&value) {
                value = next;
            }
            value
        };
        let ops: Vec<_> = kernel.ops.iter().map(|(id, _)| id).collect();
        for id in ops {
            for operand in &mut kernel.ops[id].operands {
                *operand = resolve(*operand);
            }
        }
        let name = kernel.name.clone();
        let errors = self.errors.into_iter().map(|e| e.in_kernel(&name)).collect();
        Traced { kernel, errors }
    }

    /// Makes known the text of a stretch of a source file, for rendering errors.
    pub(crate) fn add_source(&mut self, file: &str, snippet: Snippet) {
        let file = self.file(file) as usize;
        let snippets = &mut self.builder.kernel_mut().files[file].snippets;
        if !snippet.text.is_empty() && !snippets.contains(&snippet) {
            snippets.push(snippet);
        }
    }

    fn file(&mut self, name: &str) -> u32 {
        if let Some(&file) = self.files.get(name) {
            return file;
        }
        let files = &mut self.builder.kernel_mut().files;
        let file = files.len() as u32;
        files.push(SourceFile::named(name));
        self.files.insert(name.to_owned(), file);
        file
    }

    pub(crate) fn span(&mut self, at: At) -> Span {
        Span { file: self.file(at.file()), line: at.line(), column: at.column() }
    }

    /// Records an error at `at`, with the calls of helpers that led there.
    pub(crate) fn error(&mut self, at: At, error: Diagnostic) {
        let mut error = error.at(Some(self.span(at)));
        for (name, caller) in self.helpers.clone().into_iter().rev() {
            let span = self.span(caller);
            error.related.push((span, format!("in the helper `{name}`, called here")));
        }
        self.errors.push(error);
    }

    pub(crate) fn enter_helper(&mut self, name: &'static str, at: At) {
        self.helpers.push((name, at));
    }
    pub(crate) fn leave_helper(&mut self) {
        self.helpers.pop();
    }

    pub(crate) fn raw(&self, value: Value) -> Raw {
        Raw { value: Some(value), trace: self.number }
    }
    pub(crate) fn broken(&self) -> Raw {
        Raw { value: None, trace: self.number }
    }

    /// The value, if it is not broken and belongs to this trace.
    pub(crate) fn value(&mut self, at: At, raw: Raw) -> Option<Value> {
        if raw.trace != self.number {
            self.error(
                at,
                Diagnostic::error("a value of another kernel is used here")
                    .hint("values live in the kernel that made them; pass data through tensors"),
            );
            return None;
        }
        raw.value
    }

    pub(crate) fn tile_type(&mut self, at: At, raw: Raw) -> Option<TileType> {
        let value = self.value(at, raw)?;
        self.builder.kernel().ty(value).tile()
    }

    pub(crate) fn shape(&mut self, at: At, raw: Raw) -> Option<Shape> {
        self.tile_type(at, raw).map(|t| t.shape)
    }

    /// Records an operation with one result.
    pub(crate) fn op(
        &mut self,
        at: At,
        kind: OpKind,
        operands: &[Raw],
        result: Option<TileType>,
    ) -> Raw {
        let Some(operands) = self.operands(at, operands) else { return self.broken() };
        match self.builder.op(kind, &operands, result) {
            Ok(value) => self.raw(value),
            Err(error) => {
                self.error(at, error);
                self.broken()
            }
        }
    }

    /// Records an operation without results.
    pub(crate) fn effect(&mut self, at: At, kind: OpKind, operands: &[Raw]) {
        let Some(operands) = self.operands(at, operands) else { return };
        if let Err(error) = self.builder.effect(kind, &operands) {
            self.error(at, error);
        }
    }

    fn operands(&mut self, at: At, operands: &[Raw]) -> Option<Vec<Value>> {
        let mut values = Vec::with_capacity(operands.len());
        let mut whole = true;
        for &raw in operands {
            match self.value(at, raw) {
                Some(value) => values.push(value),
                None => whole = false,
            }
        }
        if self.builder.kernel().ops.len() >= MAX_OPS {
            // Unwinding is the only way out of a host loop that unrolls without end.
            let loop_hint =
                "a `for` over host values is unrolled; loop over `tiles(..)` or a traced range";
            panic!("the kernel has more than {MAX_OPS} operations: {loop_hint}");
        }
        let span = self.span(at);
        self.builder.set_span(Some(span));
        whole.then_some(values)
    }

    pub(crate) fn constant(&mut self, at: At, scalar: Scalar) -> Raw {
        let ty = TileType::scalar(scalar.dtype());
        self.op(at, OpKind::Constant(scalar), &[], Some(ty))
    }

    pub(crate) fn cast(&mut self, at: At, raw: Raw, dtype: DType) -> Raw {
        match self.tile_type(at, raw) {
            None => self.broken(),
            Some(ty) if ty.dtype == dtype => raw,
            Some(ty) => self.op(at, OpKind::Cast, &[raw], Some(TileType::new(dtype, ty.shape))),
        }
    }

    pub(crate) fn broadcast(&mut self, at: At, raw: Raw, shape: Shape) -> Raw {
        match self.tile_type(at, raw) {
            None => self.broken(),
            Some(ty) if ty.shape == shape => raw,
            Some(ty) => {
                self.op(at, OpKind::Broadcast, &[raw], Some(TileType::new(ty.dtype, shape)))
            }
        }
    }

    /// Stretches all values to the shape they broadcast to together.
    pub(crate) fn broadcast_all(&mut self, at: At, what: &str, raws: &mut [Raw]) -> Option<Shape> {
        let mut joint = Shape::SCALAR;
        for &raw in raws.iter() {
            let shape = self.shape(at, raw)?;
            let Some(both) = joint.broadcast(&shape) else {
                self.error(
                    at,
                    Diagnostic::error(format!("{what}: the shapes {joint} and {shape} don't fit together"))
                        .label(format!("{joint} with {shape}"))
                        .hint("shapes are matched from the last axis; sides must be equal or 1. `.expand(axis)` inserts a side of 1"),
                );
                return None;
            };
            joint = both;
        }
        for raw in raws {
            *raw = self.broadcast(at, *raw, joint);
        }
        Some(joint)
    }

    /// A shape from the author, or an error.
    pub(crate) fn make_shape(&mut self, at: At, sides: &[usize]) -> Option<Shape> {
        match Shape::new(sides) {
            Ok(shape) => Some(shape),
            Err(why) => {
                self.error(at, Diagnostic::error(why));
                None
            }
        }
    }

    /// Gives a value its author's name, unless it has one.
    pub(crate) fn name(&mut self, raw: Raw, name: &str) {
        if let Some(value) = raw.value
            && raw.trace == self.number
        {
            self.builder.kernel_mut().values[value].name.get_or_insert_with(|| name.to_owned());
        }
    }

    pub(crate) fn parameter(&mut self, name: &str, ty: Type) -> Raw {
        let value = self.builder.parameter(name, ty);
        self.raw(value)
    }
}
