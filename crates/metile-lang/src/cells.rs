//! Cells: what `let mut` becomes in a kernel.

use crate::element::Dtype;
use crate::tile::{IntoTile, Lift, Tile};
use crate::trace::{At, Raw, Slot, here, with};

/// What a variable of a kernel can hold, and a loop can carry: tiles and scalars, and tuples and
/// arrays of these.
#[diagnostic::on_unimplemented(
    message = "a variable of a kernel can't hold `{Self}`",
    note = "`let mut` holds tiles and scalars, or tuples and arrays of them; use `let` for host values and views"
)]
pub trait Carried: Copy {
    #[doc(hidden)]
    fn parts(&self, out: &mut Parts);
    #[doc(hidden)]
    fn rebuild(parts: &mut dyn Iterator<Item = Part>) -> Self;
}

/// The tiles of a carried value, in order.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Parts(Vec<Raw>);

/// One of them.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Part(Raw);

impl<T: Dtype> Carried for Tile<T> {
    fn parts(&self, out: &mut Parts) {
        out.0.push(self.raw);
    }
    fn rebuild(parts: &mut dyn Iterator<Item = Part>) -> Self {
        match parts.next() {
            Some(part) => Tile::from_raw(part.0),
            None => Tile::from_raw(with(|t| t.broken())),
        }
    }
}

impl<V: Carried, const N: usize> Carried for [V; N] {
    fn parts(&self, out: &mut Parts) {
        self.iter().for_each(|v| v.parts(out));
    }
    fn rebuild(parts: &mut dyn Iterator<Item = Part>) -> Self {
        std::array::from_fn(|_| V::rebuild(parts))
    }
}

macro_rules! tuples {
    ($($($name:ident $source:ident $n:tt),*;)*) => {$(
        impl<$($name: Carried),*> Carried for ($($name,)*) {
            fn parts(&self, out: &mut Parts) {
                $(self.$n.parts(out);)*
            }
            fn rebuild(parts: &mut dyn Iterator<Item = Part>) -> Self {
                ($($name::rebuild(parts),)*)
            }
        }
        impl<$($name: Lift),*> Lift for ($($name,)*) {
            type Out = ($($name::Out,)*);
            #[track_caller]
            fn lift(self) -> Self::Out {
                ($(self.$n.lift(),)*)
            }
        }
        impl<$($name, $source: LiftAs<$name>),*> LiftAs<($($name,)*)> for ($($source,)*) {
            #[track_caller]
            fn lift_as(self) -> ($($name,)*) {
                ($(self.$n.lift_as(),)*)
            }
        }
    )*};
}
tuples! {
    A SA 0;
    A SA 0, B SB 1;
    A SA 0, B SB 1, C SC 2;
    A SA 0, B SB 1, C SC 2, D SD 3;
    A SA 0, B SB 1, C SC 2, D SD 3, E SE 4;
    A SA 0, B SB 1, C SC 2, D SD 3, E SE 4, F SF 5;
    A SA 0, B SB 1, C SC 2, D SD 3, E SE 4, F SF 5, G SG 6;
    A SA 0, B SB 1, C SC 2, D SD 3, E SE 4, F SF 5, G SG 6, H SH 7;
}

impl<V: Lift, const N: usize> Lift for [V; N] {
    type Out = [V::Out; N];
    #[track_caller]
    fn lift(self) -> Self::Out {
        self.map(Lift::lift)
    }
}

/// A value that can be stored where a variable holds `V`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be assigned to a variable that holds `{V}`",
    note = "a variable keeps its type; convert tiles with `.to::<…>()`"
)]
pub trait LiftAs<V> {
    #[doc(hidden)]
    fn lift_as(self) -> V;
}
impl<T: Dtype, S: IntoTile<T>> LiftAs<Tile<T>> for S {
    #[track_caller]
    fn lift_as(self) -> Tile<T> {
        self.into_tile()
    }
}
impl<V, S: LiftAs<V>, const N: usize> LiftAs<[V; N]> for [S; N] {
    #[track_caller]
    fn lift_as(self) -> [V; N] {
        self.map(LiftAs::lift_as)
    }
}

/// A variable of a kernel. Reading it gives the value it holds at that point of the program; what
/// it holds after a loop or branch is worked out by the tracer.
#[derive(Debug)]
pub struct Cell<V> {
    first: Option<Slot>,
    count: u32,
    _holds: std::marker::PhantomData<fn() -> V>,
}
impl<V> Clone for Cell<V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for Cell<V> {}

/// `let mut name = init`.
#[track_caller]
pub fn cell<S: Lift>(name: &'static str, init: S) -> Cell<S::Out>
where
    S::Out: Carried,
{
    let at = here();
    new_cell(at, name, init.lift())
}

/// `let mut name: V = init`.
#[track_caller]
pub fn cell_as<V: Carried, S: LiftAs<V>>(name: &'static str, init: S) -> Cell<V> {
    let at = here();
    new_cell(at, name, init.lift_as())
}

/// `let name: V = value`, for scalar types that a kernel reads as traced.
#[track_caller]
pub fn lift_as<V, S: LiftAs<V>>(value: S) -> V {
    value.lift_as()
}

/// A host value as the constant its type says; a traced one as it is.
#[track_caller]
pub fn lift<S: Lift>(value: S) -> S::Out {
    value.lift()
}

fn new_cell<V: Carried>(at: At, name: &'static str, init: V) -> Cell<V> {
    let mut parts = Parts::default();
    init.parts(&mut parts);
    let slots: Vec<Slot> = with(|t| parts.0.iter().map(|&raw| t.new_slot(at, name, raw)).collect());
    Cell {
        first: slots.first().copied(),
        count: slots.len() as u32,
        _holds: std::marker::PhantomData,
    }
}

impl<V: Carried> Cell<V> {
    /// What the variable holds now.
    #[track_caller]
    pub fn get(self) -> V {
        let parts: Vec<Part> = with(|t| self.slots().map(|slot| Part(t.read_slot(slot))).collect());
        V::rebuild(&mut parts.into_iter())
    }

    /// Makes the variable hold `value`, stretched to the shape it has.
    #[track_caller]
    pub fn set<S: LiftAs<V>>(self, value: S) {
        let at = here();
        let mut parts = Parts::default();
        value.lift_as().parts(&mut parts);
        with(|t| {
            for (slot, &raw) in self.slots().zip(&parts.0) {
                t.write_slot(at, slot, raw);
            }
        });
    }

    fn slots(self) -> impl Iterator<Item = Slot> {
        let first = self.first;
        (0..self.count).filter_map(move |n| first.map(|slot| slot.after(n)))
    }
}

pub(crate) fn raw_parts<V: Carried>(value: &V) -> Vec<Raw> {
    let mut parts = Parts::default();
    value.parts(&mut parts);
    parts.0
}

pub(crate) fn from_raws<V: Carried>(raws: Vec<Raw>) -> V {
    V::rebuild(&mut raws.into_iter().map(Part))
}
