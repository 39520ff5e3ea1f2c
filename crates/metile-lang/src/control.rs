//! Loops and branches: what `for`, `while`, `if`, `&&` and `||` become in a kernel.

use crate::cells::{Carried, from_raws, raw_parts};
use crate::element::Dtype;
use crate::memory::View;
use crate::tile::{IntoTile, Tile};
use crate::trace::{At, Loop, Raw, here, with};
use metile_ir::tile::TileType;
use metile_ir::{DType, Diagnostic};

/// A loop over run-time bounds: the kernel's program loops, the body is traced once.
#[derive(Clone, Copy, Debug)]
pub struct TracedRange<T: Dtype> {
    at: At,
    low: Raw,
    high: Raw,
    step: Raw,
    _of: std::marker::PhantomData<fn() -> T>,
}

/// The starts of the tiles of side `side` that cover `0..n`: 0, `side`, 2·`side`, … below `n`.
#[track_caller]
pub fn tiles(n: impl IntoTile<i64>, side: usize) -> TracedRange<i64> {
    step_range(0usize, n, side)
}

/// `low`, `low + step`, … below `high`; `step` below 1 counts as 1.
#[track_caller]
pub fn step_range(
    low: impl IntoTile<i64>,
    high: impl IntoTile<i64>,
    step: impl IntoTile<i64>,
) -> TracedRange<i64> {
    traced_range(here(), low.into_tile(), high.into_tile(), step.into_tile())
}

fn traced_range<T: Dtype>(
    at: At,
    low: Tile<i64>,
    high: Tile<i64>,
    step: Tile<i64>,
) -> TracedRange<T> {
    let (low, high, step) = (low.raw, high.raw, step.raw);
    TracedRange { at, low, high, step, _of: std::marker::PhantomData }
}

/// The bounds of a range in a `for`: both host integers, or at least one traced.
#[diagnostic::on_unimplemented(
    message = "`{Self}..{B}` is no range a kernel can loop over",
    note = "bounds are integers of one type: host values unroll, traced scalars loop"
)]
pub trait Bounds<B> {
    /// What the loop goes over.
    type Range: Iterate;
    #[doc(hidden)]
    fn bounds(self, high: B, inclusive: bool) -> Self::Range;
}

/// `low..high`.
#[track_caller]
pub fn range<A: Bounds<B>, B>(low: A, high: B) -> A::Range {
    low.bounds(high, false)
}
/// `low..=high`.
#[track_caller]
pub fn range_inclusive<A: Bounds<B>, B>(low: A, high: B) -> A::Range {
    low.bounds(high, true)
}

#[track_caller]
fn bounds<T: Dtype>(low: Tile<T>, high: Tile<T>, inclusive: bool) -> TracedRange<T> {
    let at = here();
    let low = low.to::<i64>();
    let high = if inclusive { high.to::<i64>() + 1usize } else { high.to::<i64>() };
    traced_range(at, low, high, IntoTile::<i64>::into_tile(1usize))
}

macro_rules! ranges {
    ($($host:ty => $tile:ty;)*) => {$(
        impl Bounds<Tile<$tile>> for Tile<$tile> {
            type Range = TracedRange<$tile>;
            #[track_caller]
            fn bounds(self, high: Tile<$tile>, inclusive: bool) -> TracedRange<$tile> {
                bounds(self, high, inclusive)
            }
        }
        impl Bounds<Tile<$tile>> for $host {
            type Range = TracedRange<$tile>;
            #[track_caller]
            fn bounds(self, high: Tile<$tile>, inclusive: bool) -> TracedRange<$tile> {
                bounds(self.into_tile(), high, inclusive)
            }
        }
        impl Bounds<$host> for Tile<$tile> {
            type Range = TracedRange<$tile>;
            #[track_caller]
            fn bounds(self, high: $host, inclusive: bool) -> TracedRange<$tile> {
                bounds(self, high.into_tile(), inclusive)
            }
        }
    )*};
}
// `u64` has no traced ranges: a loop's index is an i64.
ranges! {
    i8 => i8; u8 => u8; i16 => i16; u16 => u16; i32 => i32; u32 => u32; usize => i64;
}

macro_rules! host_ranges {
    ($($host:ty)*) => {$(
        impl Bounds<$host> for $host {
            type Range = std::ops::Range<$host>;
            fn bounds(self, high: $host, inclusive: bool) -> std::ops::Range<$host> {
                self..if inclusive { high.saturating_add(1) } else { high }
            }
        }
    )*};
}
host_ranges!(i8 u8 i16 u16 i32 u32 i64 u64 isize usize);

/// What a `for` in a kernel can go over: a traced range, which becomes a loop of the program, or
/// anything Rust iterates, which is unrolled while tracing.
#[diagnostic::on_unimplemented(
    message = "a kernel can't loop over `{Self}`",
    note = "loop over `tiles(n, SIDE)`, a range, or a host collection (which is unrolled)"
)]
pub trait Iterate {
    /// What the loop variable is.
    type Item;
    #[doc(hidden)]
    fn each(self, name: &str, body: impl FnMut(Self::Item));
}

impl<I: IntoIterator> Iterate for I {
    type Item = I::Item;
    fn each(self, _name: &str, body: impl FnMut(I::Item)) {
        self.into_iter().for_each(body);
    }
}

impl<T: Dtype> Iterate for TracedRange<T> {
    type Item = Tile<T>;
    #[track_caller]
    fn each(self, name: &str, mut body: impl FnMut(Tile<T>)) {
        let at = self.at;
        let index = with(|t| {
            t.open_loop(at);
            let index = t.loop_index();
            if !name.is_empty() {
                t.name(index, name);
            }
            index
        });
        body(Tile::from_raw(with(|t| t.cast(at, index, T::DTYPE))));
        with(|t| {
            let closed = t.close();
            let bounds = [self.low, self.high, self.step];
            for (what, bound) in ["start", "end", "step"].iter().zip(bounds) {
                if t.shape(at, bound).is_some_and(|s| !s.is_scalar()) {
                    let error = Diagnostic::error(format!("the {what} of a range is a tile"));
                    t.error(at, error.hint("bounds of a loop are scalars; reduce the tile first"));
                }
            }
            t.finish_loop(at, Loop::For(bounds, closed));
        });
    }
}

/// `for name in over { body }`.
#[track_caller]
pub fn for_each<I: Iterate>(name: &str, over: I, body: impl FnMut(I::Item)) {
    over.each(name, body);
}

/// `while condition { body }`; the condition is traced.
#[track_caller]
pub fn while_loop<C: IntoTile<bool>>(condition: impl FnOnce() -> C, body: impl FnOnce()) {
    let at = here();
    with(|t| t.open_loop(at));
    let test = condition().into_tile().raw;
    let condition = with(|t| {
        single_bool(t, at, "while", test);
        let closed = t.close();
        t.open_loop(at);
        closed
    });
    body();
    with(|t| {
        let body = t.close();
        t.finish_loop(at, Loop::While(condition, test, body));
    });
}

/// A condition: a host `bool`, decided while tracing, or a traced one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no condition",
    note = "a condition is a bool; reduce a tile of bools with `.any()` or `.all()`"
)]
pub trait Condition: Sized {
    /// What `&&`, `||` with another condition gives.
    #[doc(hidden)]
    fn decide(self) -> Decision;
}

/// A condition as the tracer sees it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Decision {
    /// Decided while tracing.
    Host(bool),
    /// Decided by the program.
    Traced(Tile<bool>),
}

impl Condition for bool {
    fn decide(self) -> Decision {
        Decision::Host(self)
    }
}
impl Condition for Tile<bool> {
    fn decide(self) -> Decision {
        Decision::Traced(self)
    }
}

/// What the two sides of an `if` may give.
///
/// Where the condition is traced, these are tiles and scalars, tuples and arrays of them, or
/// nothing; where it is a host `bool`, also host values and views.
#[diagnostic::on_unimplemented(
    message = "an `if` in a kernel can't give `{Self}`",
    note = "it gives tiles, scalars, host numbers, views, or tuples and arrays of tiles"
)]
pub trait Branch: Sized {
    /// The recorded values, if this can come out of a traced branch.
    #[doc(hidden)]
    fn recorded(&self) -> Option<Recorded>;
    /// The value made of the merged values.
    #[doc(hidden)]
    fn merged(self, merged: Recorded) -> Self;
}

/// Values going out of a branch.
#[doc(hidden)]
#[derive(Debug)]
pub struct Recorded(Vec<Raw>);

impl Branch for () {
    fn recorded(&self) -> Option<Recorded> {
        Some(Recorded(Vec::new()))
    }
    fn merged(self, _: Recorded) {}
}

macro_rules! carried_branches {
    ($([$($generics:tt)*] $ty:ty;)*) => {$(
        impl<$($generics)*> Branch for $ty {
            fn recorded(&self) -> Option<Recorded> {
                Some(Recorded(raw_parts(self)))
            }
            fn merged(self, merged: Recorded) -> Self {
                from_raws(merged.0)
            }
        }
    )*};
}
carried_branches! {
    [T: Dtype] Tile<T>;
    [V: Carried, const N: usize] [V; N];
    [A: Carried, B: Carried] (A, B);
    [A: Carried, B: Carried, C: Carried] (A, B, C);
    [A: Carried, B: Carried, C: Carried, D: Carried] (A, B, C, D);
    [A: Carried, B: Carried, C: Carried, D: Carried, E: Carried] (A, B, C, D, E);
}

macro_rules! host_branches {
    ($([$($generics:tt)*] $ty:ty;)*) => {$(
        impl<$($generics)*> Branch for $ty {
            fn recorded(&self) -> Option<Recorded> {
                None
            }
            fn merged(self, _: Recorded) -> Self {
                self
            }
        }
    )*};
}
host_branches! {
    [] bool; [] i8; [] u8; [] i16; [] u16; [] i32; [] u32; [] i64; [] u64; [] isize; [] usize;
    [] f32; [] f64; [] half::f16; [] half::bf16; [] &'static str;
    [T: crate::element::Element, const R: usize, A] View<T, R, A>;
}

/// `if condition { then } else { otherwise }`.
#[track_caller]
pub fn branch<V: Branch>(
    condition: impl Condition,
    then: impl FnOnce() -> V,
    otherwise: impl FnOnce() -> V,
) -> V {
    let at = here();
    let test = match condition.decide() {
        Decision::Host(true) => return then(),
        Decision::Host(false) => return otherwise(),
        Decision::Traced(test) => test.raw,
    };
    with(|t| {
        single_bool(t, at, "if", test);
        t.open_branch(at);
    });
    let first = then();
    let first_closed = with(|t| {
        let closed = t.close();
        t.open_branch(at);
        closed
    });
    let second = otherwise();
    let (Some(a), Some(b)) = (first.recorded(), second.recorded()) else {
        with(|t| {
            let closed = t.close();
            t.error(
                at,
                Diagnostic::error("an `if` decided at run time gives a host value").hint(
                    "make it a traced one, as in `if p { scalar(1.0) } else { scalar(0.0) }`, or use `select`",
                ),
            );
            t.branch(at, test, (first_closed, Vec::new()), (closed, Vec::new()));
        });
        return first;
    };
    let merged = with(|t| {
        let closed = t.close();
        t.branch(at, test, (first_closed, a.0), (closed, b.0))
    });
    first.merged(Recorded(merged))
}

fn single_bool(t: &mut crate::trace::Tracer, at: At, what: &str, test: Raw) {
    let one = TileType::scalar(DType::Bool);
    if let Some(found) = t.tile_type(at, test)
        && found != one
    {
        let error = Diagnostic::error(format!("`{what}` needs one bool, not {found}"));
        t.error(at, error.hint("reduce a tile of bools with `.any()` or `.all()`"));
    }
}

/// Conditions that `&&` and `||` combine.
pub trait Logic<B> {
    /// `bool` if both are, else a tile.
    type Out;
    #[doc(hidden)]
    fn and_then(self, other: impl FnOnce() -> B) -> Self::Out;
    #[doc(hidden)]
    fn or_else(self, other: impl FnOnce() -> B) -> Self::Out;
}

impl Logic<bool> for bool {
    type Out = bool;
    fn and_then(self, other: impl FnOnce() -> bool) -> bool {
        self && other()
    }
    fn or_else(self, other: impl FnOnce() -> bool) -> bool {
        self || other()
    }
}
macro_rules! traced_logic {
    ($($a:ty, $b:ty;)*) => {$(
        impl Logic<$b> for $a {
            type Out = Tile<bool>;
            #[track_caller]
            fn and_then(self, other: impl FnOnce() -> $b) -> Tile<bool> {
                let this: Tile<bool> = self.into_tile();
                this & IntoTile::<bool>::into_tile(other())
            }
            #[track_caller]
            fn or_else(self, other: impl FnOnce() -> $b) -> Tile<bool> {
                let this: Tile<bool> = self.into_tile();
                this | IntoTile::<bool>::into_tile(other())
            }
        }
    )*};
}
traced_logic! {
    Tile<bool>, Tile<bool>;
    Tile<bool>, bool;
    bool, Tile<bool>;
}

/// `a && b`. Traced conditions are both evaluated: nothing in the language has an effect that a
/// condition could guard.
#[track_caller]
pub fn and_then<A: Logic<B>, B>(a: A, b: impl FnOnce() -> B) -> A::Out {
    a.and_then(b)
}
/// `a || b`; see [`and_then`].
#[track_caller]
pub fn or_else<A: Logic<B>, B>(a: A, b: impl FnOnce() -> B) -> A::Out {
    a.or_else(b)
}
