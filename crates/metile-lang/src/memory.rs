//! Tensors as a kernel sees them: views that loads and stores go through.

use crate::element::{Dtype, Element, Float, Int, StoredAs};
use crate::tile::{IntoTile, Tile};
use crate::trace::{At, Raw, Tracer, here, with};
use metile_ir::tile::{AtomicOp, OpKind, TileType};
use metile_ir::{DType, Diagnostic, Scalar};
use std::marker::PhantomData;

/// A tensor that is only read.
#[derive(Clone, Copy, Debug)]
pub struct Read;
/// A tensor that is read and written.
#[derive(Clone, Copy, Debug)]
pub struct ReadWrite;

/// A tensor parameter inside a kernel, or a view of one. `T` is its element, `R` its rank.
///
/// Every access is masked by the view's own shape: a load outside gives the fill value, a store
/// outside does nothing. What lies beyond a view is never touched.
pub struct View<T: Element, const R: usize, A> {
    pub(crate) raw: Raw,
    _of: PhantomData<fn() -> (T, A)>,
}

impl<T: Element, const R: usize, A> Clone for View<T, R, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element, const R: usize, A> Copy for View<T, R, A> {}

impl<T: Element, const R: usize, A> std::fmt::Debug for View<T, R, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View<{}, {R}>", T::FORMAT)
    }
}

/// One coordinate: an integer tile, or a host `usize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no coordinate",
    note = "coordinates are integer tiles and scalars, or host usize values"
)]
pub trait Coordinate {
    #[doc(hidden)]
    fn coordinate(self) -> Sealed;
}

/// A recorded value, for the traits of this crate alone.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Sealed(pub(crate) Raw);

impl<I: Int> Coordinate for Tile<I> {
    fn coordinate(self) -> Sealed {
        Sealed(self.raw)
    }
}
impl Coordinate for usize {
    #[track_caller]
    fn coordinate(self) -> Sealed {
        Sealed(IntoTile::<i64>::into_tile(self).raw)
    }
}

/// The coordinates of elements of a tensor of rank `R`: a tuple with one per axis, or a single one
/// for rank 1. They are stretched to their joint shape.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not where elements of a tensor of rank {R} are",
    note = "give a tuple of {R} integer coordinates, one per axis, as in `x.load((row, column))`"
)]
pub trait Coordinates<const R: usize> {
    #[doc(hidden)]
    fn coordinates(self) -> [Sealed; R];
}

impl<A: Coordinate> Coordinates<1> for A {
    #[track_caller]
    fn coordinates(self) -> [Sealed; 1] {
        [self.coordinate()]
    }
}
macro_rules! tuples {
    ($($rank:literal: $($name:ident $n:tt),*;)*) => {$(
        impl<$($name: Coordinate),*> Coordinates<$rank> for ($($name,)*) {
            #[track_caller]
            fn coordinates(self) -> [Sealed; $rank] {
                [$(self.$n.coordinate()),*]
            }
        }
    )*};
}
tuples! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
}

/// A value that may be stored in a tensor of `T`: a number that widens as `T` does (it is rounded to
/// `T`, to nearest, ties to even), a `bool`, or a literal.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be stored in a tensor of `{T}`",
    note = "convert it with `.to::<{T}>()`; only floats are rounded to one another by a store"
)]
pub trait StoreInto<T: Dtype> {
    #[doc(hidden)]
    fn stored(self) -> Sealed;
}
impl<V: Dtype + StoredAs<T>, T: Dtype> StoreInto<T> for Tile<V> {
    #[track_caller]
    fn stored(self) -> Sealed {
        let at = here();
        Sealed(with(|t| t.cast(at, self.raw, T::DTYPE)))
    }
}
impl<T: Float> StoreInto<T> for f32 {
    #[track_caller]
    fn stored(self) -> Sealed {
        Sealed(IntoTile::<T>::into_tile(self).raw)
    }
}
macro_rules! store_host {
    ($($host:ty => $($tile:ty)*;)*) => {$($(
        impl StoreInto<$tile> for $host {
            #[track_caller]
            fn stored(self) -> Sealed {
                Sealed(IntoTile::<$tile>::into_tile(self).raw)
            }
        }
    )*)*};
}
store_host! {
    bool => bool;
    i32 => i8 u8 i16 u16 i32 u32 i64 u64;
    usize => i64;
    u32 => u32;
    i64 => i64;
    u64 => u64;
}

fn raws<const N: usize>(sealed: [Sealed; N]) -> Vec<Raw> {
    sealed.iter().map(|s| s.0).collect()
}

impl<T: Element, const R: usize, A> View<T, R, A> {
    pub(crate) fn from_raw(raw: Raw) -> Self {
        View { raw, _of: PhantomData }
    }

    /// The extent of `axis`.
    #[track_caller]
    pub fn dim(self, axis: usize) -> Tile<i64> {
        let at = here();
        let axis = u8::try_from(axis).unwrap_or(u8::MAX);
        Tile::from_raw(with(|t| t.op(at, OpKind::Dim { axis }, &[self.raw], None)))
    }

    /// The elements at `at`; 0 outside the tensor.
    #[track_caller]
    pub fn load(self, at: impl Coordinates<R>) -> Tile<T::Tile> {
        let here = here();
        let at = at.coordinates();
        let fill = Tile::<T::Tile>::constant(here, Scalar::zero(T::Tile::DTYPE));
        Tile::from_raw(with(|t| load(t, here, self.raw, raws(at), None, fill.raw)))
    }

    /// The elements at `at`; `fill` outside the tensor.
    #[track_caller]
    pub fn load_or(self, at: impl Coordinates<R>, fill: impl IntoTile<T::Tile>) -> Tile<T::Tile> {
        let here = here();
        let (at, fill) = (at.coordinates(), fill.into_tile());
        Tile::from_raw(with(|t| load(t, here, self.raw, raws(at), None, fill.raw)))
    }

    /// The elements at `at` where `mask`; `fill` elsewhere and outside the tensor.
    #[track_caller]
    pub fn load_where(
        self,
        at: impl Coordinates<R>,
        mask: impl IntoTile<bool>,
        fill: impl IntoTile<T::Tile>,
    ) -> Tile<T::Tile> {
        let here = here();
        let (at, mask, fill) = (at.coordinates(), mask.into_tile(), fill.into_tile());
        Tile::from_raw(with(|t| load(t, here, self.raw, raws(at), Some(mask.raw), fill.raw)))
    }

    /// The rectangle of shape `shape` whose first element is at `origin`; 0 outside the tensor.
    #[track_caller]
    pub fn load_tile(self, origin: impl Coordinates<R>, shape: [usize; R]) -> Tile<T::Tile> {
        let at = here();
        let origin = origin.coordinates();
        let fill = Tile::<T::Tile>::constant(at, Scalar::zero(T::Tile::DTYPE));
        load_tile::<T>(at, self.raw, raws(origin), &shape, fill.raw)
    }

    /// The rectangle of shape `shape` whose first element is at `origin`; `fill` outside the tensor.
    #[track_caller]
    pub fn load_tile_or(
        self,
        origin: impl Coordinates<R>,
        shape: [usize; R],
        fill: impl IntoTile<T::Tile>,
    ) -> Tile<T::Tile> {
        let at = here();
        let (origin, fill) = (origin.coordinates(), fill.into_tile());
        load_tile::<T>(at, self.raw, raws(origin), &shape, fill.raw)
    }

    /// The view of `length` elements of `axis` from `start`, both cut so that it lies within this one.
    #[track_caller]
    pub fn narrow(
        self,
        axis: usize,
        start: impl IntoTile<i64>,
        length: impl IntoTile<i64>,
    ) -> View<T, R, A> {
        let at = here();
        let (start, length) = (start.into_tile(), length.into_tile());
        let axis = u8::try_from(axis).unwrap_or(u8::MAX);
        let operands = [self.raw, start.raw, length.raw];
        View::from_raw(with(|t| t.op(at, OpKind::Narrow { axis }, &operands, None)))
    }
}

macro_rules! pick {
    ($($from:literal => $to:literal;)*) => {$(
        impl<T: Element, A> View<T, $from, A> {
            /// The view at `index` of `axis`, which goes away; empty if `index` is outside.
            #[track_caller]
            pub fn pick(self, axis: usize, index: impl IntoTile<i64>) -> View<T, $to, A> {
                let at = here();
                let index = index.into_tile();
                let axis = u8::try_from(axis).unwrap_or(u8::MAX);
                let operands = [self.raw, index.raw];
                View::from_raw(with(|t| t.op(at, OpKind::Pick { axis }, &operands, None)))
            }
        }
    )*};
}
pick! {
    2 => 1;
    3 => 2;
    4 => 3;
}

impl<T: Dtype, const R: usize> View<T, R, ReadWrite> {
    /// Stores `value`, stretched to the coordinates' shape, at `at`; nothing happens outside the
    /// tensor. Where two elements of a store meet, the later one in row-major order stays.
    #[track_caller]
    pub fn store(self, at: impl Coordinates<R>, value: impl StoreInto<T>) {
        let here = here();
        let (at, value) = (at.coordinates(), value.stored());
        with(|t| store(t, here, self.raw, raws(at), None, value.0));
    }

    /// Stores `value` at `at` where `mask`.
    #[track_caller]
    pub fn store_where(
        self,
        at: impl Coordinates<R>,
        mask: impl IntoTile<bool>,
        value: impl StoreInto<T>,
    ) {
        let here = here();
        let (at, mask, value) = (at.coordinates(), mask.into_tile(), value.stored());
        with(|t| store(t, here, self.raw, raws(at), Some(mask.raw), value.0));
    }

    /// Stores the rectangle `value`, whose rank is the tensor's, with its first element at `origin`.
    #[track_caller]
    pub fn store_tile(self, origin: impl Coordinates<R>, value: impl StoreInto<T>) {
        let at = here();
        let (origin, value) = (origin.coordinates(), value.stored());
        with(|t| {
            let mut operands = vec![self.raw];
            operands.extend(raws(origin).into_iter().map(|r| t.cast(at, r, DType::I64)));
            operands.push(value.0);
            t.effect(at, OpKind::StoreTile, &operands);
        });
    }

    /// Adds atomically, element by element; gives the old values, 0 outside. `i32`, `u32`, `i64`,
    /// `u64`, `f32`; a kernel that adds floats so is not deterministic.
    #[track_caller]
    pub fn atomic_add(self, at: impl Coordinates<R>, value: impl StoreInto<T>) -> Tile<T> {
        let here = here();
        atomic(here, AtomicOp::Add, self.raw, raws(at.coordinates()), value.stored().0)
    }
    /// Keeps the larger atomically; gives the old values, 0 outside. 32- and 64-bit integers.
    #[track_caller]
    pub fn atomic_max(self, at: impl Coordinates<R>, value: impl StoreInto<T>) -> Tile<T> {
        let here = here();
        atomic(here, AtomicOp::Max, self.raw, raws(at.coordinates()), value.stored().0)
    }
    /// Keeps the smaller atomically; gives the old values, 0 outside. 32- and 64-bit integers.
    #[track_caller]
    pub fn atomic_min(self, at: impl Coordinates<R>, value: impl StoreInto<T>) -> Tile<T> {
        let here = here();
        atomic(here, AtomicOp::Min, self.raw, raws(at.coordinates()), value.stored().0)
    }
    /// Replaces atomically; gives the old values, 0 outside. 32- and 64-bit dtypes.
    #[track_caller]
    pub fn atomic_exchange(self, at: impl Coordinates<R>, value: impl StoreInto<T>) -> Tile<T> {
        let here = here();
        atomic(here, AtomicOp::Exchange, self.raw, raws(at.coordinates()), value.stored().0)
    }
    /// Where the old bits are `expected`'s, replaces them by `value`; gives the old values, 0
    /// outside. 32- and 64-bit dtypes.
    #[track_caller]
    pub fn atomic_cas(
        self,
        at: impl Coordinates<R>,
        expected: impl StoreInto<T>,
        value: impl StoreInto<T>,
    ) -> Tile<T> {
        let here = here();
        let (at, expected, value) = (at.coordinates(), expected.stored(), value.stored());
        Tile::from_raw(with(|t| {
            let Some((mut operands, shape)) = places(t, here, self.raw, raws(at), None) else {
                return t.broken();
            };
            for value in [expected.0, value.0] {
                operands.push(t.broadcast(here, value, shape));
            }
            t.op(here, OpKind::AtomicCas, &operands, None)
        }))
    }
}

/// Read-only tensors of one shape, picked by a run-time index, so that a loop over layers is a loop.
#[derive(Debug)]
pub struct ListView<T: Element, const R: usize> {
    pub(crate) raw: Raw,
    _of: PhantomData<fn() -> T>,
}
impl<T: Element, const R: usize> Clone for ListView<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element, const R: usize> Copy for ListView<T, R> {}

impl<T: Element, const R: usize> ListView<T, R> {
    pub(crate) fn from_raw(raw: Raw) -> Self {
        ListView { raw, _of: PhantomData }
    }
    /// Tensor `index` of the list; an empty view if there is none.
    #[track_caller]
    pub fn at(self, index: impl IntoTile<i64>) -> View<T, R, Read> {
        let at = here();
        let index = index.into_tile();
        View::from_raw(with(|t| t.op(at, OpKind::ListItem, &[self.raw, index.raw], None)))
    }
}

/// Counters by which programs of a persistent kernel wait for each other.
#[derive(Clone, Copy, Debug)]
pub struct CountersView {
    pub(crate) raw: Raw,
}

impl CountersView {
    /// Adds `n` to counter `index` and releases: whoever sees the sum also sees this program's
    /// earlier writes. Nothing happens outside the counters.
    #[track_caller]
    pub fn add(self, index: impl IntoTile<i64>, n: impl IntoTile<u32>) {
        let at = here();
        let operands = [self.raw, index.into_tile().raw, n.into_tile().raw];
        with(|t| t.effect(at, OpKind::CounterAdd, &operands));
    }
    /// Waits until counter `index` is at least `n` and acquires: what was released into it is seen
    /// from here on. Outside the counters it does not wait.
    #[track_caller]
    pub fn wait(self, index: impl IntoTile<i64>, n: impl IntoTile<u32>) {
        let at = here();
        let operands = [self.raw, index.into_tile().raw, n.into_tile().raw];
        with(|t| t.effect(at, OpKind::CounterWait, &operands));
    }
}

/// Waits until every program of the grid is here; what any of them wrote before is seen by all
/// after. Persistent kernels only.
#[track_caller]
pub fn grid_barrier() {
    let at = here();
    with(|t| t.effect(at, OpKind::GridBarrier, &[]));
}

/// Tensor and coordinates (stretched to their joint shape, the mask's included), and the mask.
fn places(
    t: &mut Tracer,
    at: At,
    tensor: Raw,
    mut coordinates: Vec<Raw>,
    mask: Option<Raw>,
) -> Option<(Vec<Raw>, metile_ir::tile::Shape)> {
    coordinates.extend(mask);
    let shape = t.broadcast_all(at, "coordinates", &mut coordinates)?;
    let mut operands = vec![tensor];
    operands.extend(coordinates);
    Some((operands, shape))
}

fn load(
    t: &mut Tracer,
    at: At,
    tensor: Raw,
    coordinates: Vec<Raw>,
    mask: Option<Raw>,
    fill: Raw,
) -> Raw {
    let Some((mut operands, _)) = places(t, at, tensor, coordinates, mask) else {
        return t.broken();
    };
    operands.push(fill);
    t.op(at, OpKind::Load { masked: mask.is_some() }, &operands, None)
}

fn load_tile<T: Element>(
    at: At,
    tensor: Raw,
    origin: Vec<Raw>,
    shape: &[usize],
    fill: Raw,
) -> Tile<T::Tile> {
    Tile::from_raw(with(|t| {
        let Some(shape) = t.make_shape(at, shape) else { return t.broken() };
        let mut operands = vec![tensor];
        operands.extend(origin.into_iter().map(|r| t.cast(at, r, DType::I64)));
        operands.push(fill);
        t.op(at, OpKind::LoadTile, &operands, Some(TileType::new(T::Tile::DTYPE, shape)))
    }))
}

fn store(
    t: &mut Tracer,
    at: At,
    tensor: Raw,
    coordinates: Vec<Raw>,
    mask: Option<Raw>,
    value: Raw,
) {
    let Some((mut operands, shape)) = places(t, at, tensor, coordinates, mask) else { return };
    let Some(found) = t.shape(at, value) else { return };
    if found.broadcast(&shape) != Some(shape) {
        return t.error(
            at,
            Diagnostic::error(format!(
                "`store` puts a value of shape {found} at coordinates of shape {shape}"
            ))
            .hint("the value is stretched to the coordinates' shape; make the coordinates as large as the value"),
        );
    }
    operands.push(t.broadcast(at, value, shape));
    t.effect(at, OpKind::Store { masked: mask.is_some() }, &operands);
}

fn atomic<T: Dtype>(
    at: At,
    op: AtomicOp,
    tensor: Raw,
    coordinates: Vec<Raw>,
    value: Raw,
) -> Tile<T> {
    Tile::from_raw(with(|t| {
        let Some((mut operands, shape)) = places(t, at, tensor, coordinates, None) else {
            return t.broken();
        };
        operands.push(t.broadcast(at, value, shape));
        t.op(at, OpKind::AtomicRmw(op), &operands, None)
    }))
}
