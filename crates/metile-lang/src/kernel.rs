//! Kernels from the outside: their definition, their parameters, and a call with its arguments.

use crate::element::{Dtype, Element};
use crate::memory::{CountersView, ListView, Read, ReadWrite, View};
use crate::tensor::{Counters, RawTensor, Tensor, TensorList};
use crate::tile::Tile;
use crate::trace::{self, here, with};
use metile_ir::tile::{Access, Kernel, Precision, TensorType, TileType, Type};
use metile_ir::{DType, Diagnostic, Format, Scalar, Snippet, SourceFile};
use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;

/// A stretch of source text, as the kernel macro saw it.
#[derive(Clone, Copy, Debug)]
pub struct SourceText {
    /// The file.
    pub file: &'static str,
    /// 1-based line of the first character.
    pub first_line: u32,
    /// 1-based column of the first character.
    pub first_column: u32,
    /// The text; empty if the macro could not get it.
    pub text: &'static str,
}

/// What the kernel macro knows of a kernel.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// The function's name.
    pub name: &'static str,
    /// The module it is in.
    pub module: &'static str,
    /// Each generic parameter with what it stands for here.
    pub generics: Vec<(&'static str, String)>,
    /// The body's text.
    pub source: SourceText,
    /// Whether it is marked `persistent`.
    pub persistent: bool,
}

impl KernelInfo {
    /// The name with its generic arguments: `softmax<f16, 1024>`.
    pub fn label(&self) -> String {
        let arguments: Vec<&str> = self.generics.iter().map(|(_, v)| v.as_str()).collect();
        match arguments.is_empty() {
            true => self.name.to_owned(),
            false => format!("{}<{}>", self.name, arguments.join(", ")),
        }
    }
}

/// A kernel with its generic parameters fixed, ready to be traced.
pub struct Definition {
    info: KernelInfo,
    body: Box<dyn Fn()>,
    identity: Option<TypeId>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Definition({})", self.info.label())
    }
}

/// Why a kernel was refused: everything that is wrong with it, and the source to show it in.
#[derive(Clone, Debug)]
pub struct CompileError {
    /// The findings, at least one.
    pub diagnostics: Vec<Diagnostic>,
    /// The files their spans point into.
    pub files: Vec<SourceFile>,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, diagnostic) in self.diagnostics.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            f.write_str(diagnostic.render(&self.files).trim_end())?;
        }
        Ok(())
    }
}
impl std::error::Error for CompileError {}

impl Definition {
    /// What the kernel macro makes of a kernel.
    pub fn new<F: Fn() + 'static>(info: KernelInfo, body: F) -> Definition {
        // A body that captures nothing records the same program every time.
        let identity = (size_of::<F>() == 0).then(TypeId::of::<F>);
        Definition { info, body: Box::new(body), identity }
    }

    /// What tells this definition from any other, generic arguments included: definitions of one
    /// identity trace to one program. `None` if that is not known.
    pub fn identity(&self) -> Option<TypeId> {
        self.identity
    }

    /// What is known of the kernel.
    pub fn info(&self) -> &KernelInfo {
        &self.info
    }

    /// Runs the body once and gives the program it records.
    ///
    /// # Errors
    /// Every rule of the language that the body breaks, each at its line.
    pub fn trace(&self) -> Result<Kernel, CompileError> {
        let source = self.info.source;
        let traced = trace::trace(self.info.name, self.info.persistent, || {
            add_source(source);
            (self.body)();
        });
        if traced.errors.is_empty() {
            return Ok(traced.kernel);
        }
        Err(CompileError { diagnostics: traced.errors, files: traced.kernel.files })
    }
}

fn add_source(source: SourceText) {
    with(|t| {
        t.add_source(
            source.file,
            Snippet {
                first_line: source.first_line,
                first_column: source.first_column,
                text: source.text.to_owned(),
            },
        );
    });
}

/// While it lives, errors say that they happened in the helper.
#[derive(Debug)]
pub struct HelperFrame(());

/// Marks the start of a `#[kernel_fn]` helper.
#[track_caller]
pub fn enter_helper(name: &'static str, source: SourceText) -> HelperFrame {
    let at = here();
    with(|t| t.enter_helper(name, at));
    add_source(source);
    HelperFrame(())
}

impl Drop for HelperFrame {
    fn drop(&mut self) {
        // While a panic unwinds the trace may be gone; there is then nothing to leave.
        if !std::thread::panicking() {
            with(|t| t.leave_helper());
        }
    }
}

/// The last part of a type's path: `f16`, `Q4_0`.
pub fn type_label<T: 'static>() -> String {
    let full = std::any::type_name::<T>();
    let head = full.split('<').next().unwrap_or(full);
    head.rsplit("::").next().map_or_else(
        || full.to_owned(),
        |name| match full.split_once('<') {
            Some((_, arguments)) => {
                let short: Vec<&str> = arguments
                    .trim_end_matches('>')
                    .split(", ")
                    .map(|a| a.rsplit("::").next().unwrap_or(a))
                    .collect();
                format!("{name}<{}>", short.join(", "))
            }
            None => name.to_owned(),
        },
    )
}

/// A type that a kernel may take as a parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a kernel parameter",
    note = "a kernel takes `&Tensor<T, R>`, `&mut Tensor<T, R>`, `&TensorList<T, R>`, `&Counters` and scalars"
)]
pub trait KernelParam {
    /// What the parameter is inside the kernel.
    type Traced;
    /// The parameter of the kernel being traced.
    #[doc(hidden)]
    fn traced(name: &'static str) -> Self::Traced;
    /// The argument of a call.
    #[doc(hidden)]
    fn bind(self) -> Argument;
}

/// The parameter `name` of the kernel being traced.
pub fn param<P: KernelParam>(name: &'static str) -> P::Traced {
    P::traced(name)
}

/// An argument of a kernel call.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A run-time scalar.
    Scalar(Scalar),
    /// A tensor, and whether the kernel may write it.
    Tensor(RawTensor, Access),
    /// A list of tensors.
    List(Vec<RawTensor>),
}

fn tensor_type(format: Format, rank: usize, access: Access) -> TensorType {
    TensorType { format, rank: u8::try_from(rank).unwrap_or(u8::MAX), access }
}

impl<T: Element, const R: usize> KernelParam for &Tensor<T, R> {
    type Traced = View<T, R, Read>;
    fn traced(name: &'static str) -> Self::Traced {
        let ty = Type::Tensor(tensor_type(T::FORMAT, R, Access::Read));
        View::from_raw(with(|t| t.parameter(name, ty)))
    }
    fn bind(self) -> Argument {
        Argument::Tensor(self.raw().clone(), Access::Read)
    }
}

impl<T: Element, const R: usize> KernelParam for &mut Tensor<T, R> {
    type Traced = View<T, R, ReadWrite>;
    fn traced(name: &'static str) -> Self::Traced {
        let ty = Type::Tensor(tensor_type(T::FORMAT, R, Access::ReadWrite));
        View::from_raw(with(|t| t.parameter(name, ty)))
    }
    fn bind(self) -> Argument {
        Argument::Tensor(self.raw().clone(), Access::ReadWrite)
    }
}

impl<T: Element, const R: usize> KernelParam for &TensorList<T, R> {
    type Traced = ListView<T, R>;
    fn traced(name: &'static str) -> Self::Traced {
        let ty = Type::TensorList(tensor_type(T::FORMAT, R, Access::Read));
        ListView::from_raw(with(|t| t.parameter(name, ty)))
    }
    fn bind(self) -> Argument {
        Argument::List(self.raw().to_vec())
    }
}

impl KernelParam for &Counters {
    type Traced = CountersView;
    fn traced(name: &'static str) -> Self::Traced {
        let ty = Type::Tensor(tensor_type(Format::Plain(DType::U32), 1, Access::Counter));
        CountersView { raw: with(|t| t.parameter(name, ty)) }
    }
    fn bind(self) -> Argument {
        Argument::Tensor(self.raw().clone(), Access::Counter)
    }
}

macro_rules! scalars {
    ($($ty:ty)*) => {$(
        impl KernelParam for $ty {
            type Traced = Tile<$ty>;
            fn traced(name: &'static str) -> Tile<$ty> {
                let ty = Type::Tile(TileType::scalar(<$ty>::DTYPE));
                Tile::from_raw(with(|t| t.parameter(name, ty)))
            }
            fn bind(self) -> Argument {
                Argument::Scalar(self.scalar())
            }
        }
    )*};
}
scalars!(bool i8 u8 i16 u16 i32 u32 i64 u64 f32 half::f16 half::bf16);

/// The number of programs of a launch on each axis.
pub trait Grid {
    /// The three extents.
    fn extents(self) -> [usize; 3];
}
impl Grid for usize {
    fn extents(self) -> [usize; 3] {
        [self, 1, 1]
    }
}
impl Grid for (usize, usize) {
    fn extents(self) -> [usize; 3] {
        [self.0, self.1, 1]
    }
}
impl Grid for (usize, usize, usize) {
    fn extents(self) -> [usize; 3] {
        [self.0, self.1, self.2]
    }
}

/// A device that can make a kernel call ready to launch.
pub trait Target {
    /// The call, compiled, bound and checked.
    type Prepared<'call>;
    /// Why it could not be.
    type Error;
    /// Makes `call` ready to launch.
    ///
    /// # Errors
    /// If the kernel is refused or its arguments don't fit.
    fn prepare<'call>(&self, call: KernelCall<'call>)
    -> Result<Self::Prepared<'call>, Self::Error>;
}

/// A kernel with its arguments, not yet compiled. The arguments stay borrowed as the kernel's
/// signature says: what it writes can't be read until the call is gone.
#[derive(Debug)]
#[must_use = "a call does nothing until it is prepared and launched"]
pub struct KernelCall<'call> {
    /// The kernel.
    pub definition: Definition,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
    /// The grid, if it was given.
    pub grid: Option<[usize; 3]>,
    /// How `f32` arithmetic may be carried out.
    pub precision: Precision,
    _borrows: PhantomData<&'call mut ()>,
}

impl<'call> KernelCall<'call> {
    /// What the kernel macro makes of a call.
    pub fn new(definition: Definition, arguments: Vec<Argument>) -> KernelCall<'call> {
        KernelCall {
            definition,
            arguments,
            grid: None,
            precision: Precision::Strict,
            _borrows: PhantomData,
        }
    }

    /// The number of programs: `rows`, `(x, y)` or `(x, y, z)`. An extent of 0 launches nothing.
    pub fn grid(mut self, grid: impl Grid) -> Self {
        self.grid = Some(grid.extents());
        self
    }

    /// How `f32` arithmetic may be carried out; strictly, unless said otherwise.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Compiles, binds and checks, so that launching only launches.
    ///
    /// # Errors
    /// If the kernel is refused or its arguments don't fit.
    pub fn prepare<D: Target>(self, device: &D) -> Result<D::Prepared<'call>, D::Error> {
        device.prepare(self)
    }
}

/// Gives a traced value the name its variable has, for the text form; see [`NameAny`].
#[derive(Debug)]
pub struct Name<'v, V>(pub &'v V);

impl<T: Dtype> Name<'_, Tile<T>> {
    /// Names the tile.
    pub fn give(&self, name: &str) {
        with(|t| t.name(self.0.raw, name));
    }
}
impl<T: Element, const R: usize, A> Name<'_, View<T, R, A>> {
    /// Names the view.
    pub fn give(&self, name: &str) {
        with(|t| t.name(self.0.raw, name));
    }
}

/// What [`Name`] does with values that have no place in the program: nothing.
pub trait NameAny {
    /// Does nothing.
    fn give(&self, _name: &str) {}
}
impl<V> NameAny for Name<'_, V> {}
