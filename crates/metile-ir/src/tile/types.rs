//! Types of Tile IR values.

use crate::dtype::{DType, Format};
use std::fmt;

/// The most axes a tile or tensor has.
pub const MAX_RANK: usize = 4;

/// The most elements one tile has (4 Mi): what a program may ask a device to hold is bounded.
pub const MAX_TILE_ELEMENTS: usize = 1 << 22;

/// The sides of a tile, outermost first; none for a scalar. Sides are at least 1 and need not be
/// powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    rank: u8,
    sides: [u32; MAX_RANK],
}

impl Shape {
    /// The shape of a scalar.
    pub const SCALAR: Shape = Shape { rank: 0, sides: [1; MAX_RANK] };

    /// A shape from its sides.
    ///
    /// # Errors
    /// What is wrong, if there are more than [`MAX_RANK`] sides, a side is 0, or there are more than
    /// [`MAX_TILE_ELEMENTS`] elements.
    pub fn new(sides: &[usize]) -> Result<Shape, String> {
        if sides.len() > MAX_RANK {
            return Err(format!("a tile has at most {MAX_RANK} axes, not {}", sides.len()));
        }
        let mut shape = Shape { rank: sides.len() as u8, sides: [1; MAX_RANK] };
        let mut elements = 1usize;
        for (axis, &side) in sides.iter().enumerate() {
            if side == 0 {
                return Err(format!(
                    "axis {axis} of the tile shape {sides:?} is 0; sides are at least 1"
                ));
            }
            elements = elements.saturating_mul(side);
            if elements > MAX_TILE_ELEMENTS {
                return Err(format!(
                    "the tile shape {sides:?} has more than {MAX_TILE_ELEMENTS} elements"
                ));
            }
            shape.sides[axis] = side as u32;
        }
        Ok(shape)
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }
    /// The side of `axis`; 1 for an axis the shape does not have.
    pub fn side(&self, axis: usize) -> usize {
        self.sides.get(axis).map_or(1, |&s| s as usize)
    }
    /// All sides, outermost first.
    pub fn sides(&self) -> Vec<usize> {
        self.sides[..self.rank()].iter().map(|&s| s as usize).collect()
    }
    /// Number of elements; 1 for a scalar.
    pub fn elements(&self) -> usize {
        self.sides[..self.rank()].iter().map(|&s| s as usize).product()
    }
    /// Whether it is a scalar's shape.
    pub fn is_scalar(&self) -> bool {
        self.rank == 0
    }

    /// The shape both broadcast to: axes are matched from the last, a side of 1 stretches.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let mut sides = vec![1; rank];
        for (axis, side) in sides.iter_mut().enumerate() {
            let of = |s: &Shape| (axis + s.rank()).checked_sub(rank).map_or(1, |a| s.side(a));
            *side = match (of(self), of(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            };
        }
        Shape::new(&sides).ok()
    }

    /// Distance in elements between neighbours along each axis, row-major.
    pub fn strides(&self) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut step = 1;
        for axis in (0..self.rank()).rev() {
            strides[axis] = step;
            step *= self.side(axis);
        }
        strides
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.sides())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of a tile: a block of elements that one program holds. A scalar is a tile of rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileType {
    /// Type of one element.
    pub dtype: DType,
    /// The sides.
    pub shape: Shape,
}

impl TileType {
    /// A tile type.
    pub const fn new(dtype: DType, shape: Shape) -> TileType {
        TileType { dtype, shape }
    }
    /// The type of one element on its own.
    pub const fn scalar(dtype: DType) -> TileType {
        TileType { dtype, shape: Shape::SCALAR }
    }
}

impl fmt::Display for TileType {
    /// `f32` for a scalar, `f32[4, 8]` for a tile.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shape.is_scalar() {
            self.dtype.fmt(f)
        } else {
            write!(f, "{}{}", self.dtype, self.shape)
        }
    }
}

/// What a kernel may do with a tensor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read; nobody writes it during the launch.
    Read,
    /// Read and write.
    ReadWrite,
    /// Only counter operations: acquire and release.
    Counter,
}

/// The type of a tensor or a view of one: memory outside the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// What the memory holds.
    pub format: Format,
    /// Number of axes, 1 to [`MAX_RANK`].
    pub rank: u8,
    /// What may be done with it.
    pub access: Access,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A tile or scalar.
    Tile(TileType),
    /// A tensor or view.
    Tensor(TensorType),
    /// Read-only tensors of one type and shape, picked by a run-time index.
    TensorList(TensorType),
}

impl Type {
    /// The tile type, if it is one.
    pub fn tile(self) -> Option<TileType> {
        match self {
            Type::Tile(t) => Some(t),
            _ => None,
        }
    }
    /// The tensor type, if it is one.
    pub fn tensor(self) -> Option<TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

impl fmt::Display for TensorType {
    /// `tensor<f16, 2>`, `mut tensor<f16, 2>`, `counters<u32, 1>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.access {
            Access::Read => "tensor",
            Access::ReadWrite => "mut tensor",
            Access::Counter => "counters",
        };
        write!(f, "{kind}<{}, {}>", self.format, self.rank)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tile(t) => t.fmt(f),
            Type::Tensor(t) => t.fmt(f),
            Type::TensorList(t) => write!(f, "list<{}, {}>", t.format, t.rank),
        }
    }
}
