//! What a program's values are while it runs.

use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::tile::{Shape, TensorType, TileType};
use std::rc::Rc;

/// A value of a running program.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Tile(Rc<Tile>),
    View(Rc<View>),
    List(Rc<Vec<View>>),
}

/// A tile: each element's memory image, zero-extended, in row-major order. Bits rather than numbers,
/// so that moving a value keeps a NaN's payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tile {
    pub ty: TileType,
    pub bits: Vec<u64>,
}

/// A tensor or a view of one.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub ty: TensorType,
    pub parts: Vec<ViewPart>,
    pub shape: Vec<u64>,
    pub strides: Vec<i64>,
    /// Which parameter it comes from, for messages.
    pub parameter: usize,
}

/// One array of a view: its buffer, and the byte offset of the view's first element.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewPart {
    pub buffer: usize,
    pub byte_offset: i64,
}

impl Tile {
    pub fn splat(ty: TileType, scalar: Scalar) -> Tile {
        Tile { ty, bits: vec![scalar.bits(); ty.shape.elements()] }
    }
    pub fn scalar(scalar: Scalar) -> Tile {
        Tile { ty: TileType::scalar(scalar.dtype()), bits: vec![scalar.bits()] }
    }
    pub fn get(&self, n: usize) -> Scalar {
        Scalar::from_bits(self.ty.dtype, self.bits.get(n).copied().unwrap_or(0))
    }
    pub fn scalars(&self) -> impl Iterator<Item = Scalar> + '_ {
        let dtype = self.ty.dtype;
        self.bits.iter().map(move |&b| Scalar::from_bits(dtype, b))
    }
    pub fn f32s(&self) -> Vec<f32> {
        self.scalars().map(|s| s.as_f32().unwrap_or(f32::NAN)).collect()
    }
    pub fn truth(&self) -> bool {
        self.bits.first() != Some(&0)
    }
    pub fn collect(ty: TileType, scalars: impl Iterator<Item = Scalar>) -> Tile {
        Tile { ty, bits: scalars.map(Scalar::bits).collect() }
    }
    /// The elements of result position `n` of `shape`, one coordinate per axis.
    pub fn coordinates(shape: &Shape, n: usize) -> [usize; crate::tile::MAX_RANK] {
        let mut rest = n;
        let mut at = [0; crate::tile::MAX_RANK];
        for axis in (0..shape.rank()).rev() {
            at[axis] = rest % shape.side(axis);
            rest /= shape.side(axis);
        }
        at
    }
}

impl View {
    pub fn loaded(&self) -> DType {
        self.ty.format.loaded()
    }
    /// The same kind of view with no elements.
    pub fn empty(&self, rank: usize) -> View {
        let mut view = self.clone();
        view.ty.rank = rank as u8;
        view.shape = vec![0; rank];
        view.strides = vec![0; rank];
        view
    }
}
