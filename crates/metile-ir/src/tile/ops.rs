//! The operations of Tile IR, by family. Each variant says what its operands and results are.
//!
//! Notation: `a, b` are operands in order; *same* means same dtype and shape. Arithmetic is on
//! integers and `f32` only: `f16` and `bf16` are widened by an explicit [`OpKind::Cast`].

use crate::scalar::Scalar;

/// What an operation does. Operands, results and regions are in [`Op`](super::Op).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    // Position in the grid and constants.
    /// `() -> i64`: this program's position on axis 0, 1 or 2.
    ProgramId(u8),
    /// `() -> i64`: the grid's extent on axis 0, 1 or 2.
    NumPrograms(u8),
    /// `() -> T[shape]`: every element is the scalar.
    Constant(Scalar),
    /// `() -> i64[n]`: 0, 1, …, n − 1.
    Arange,

    // Element by element.
    /// `a -> same` (see [`UnaryOp`]).
    Unary(UnaryOp),
    /// `a, b -> same` (see [`BinaryOp`]).
    Binary(BinaryOp),
    /// `a, b -> bool[shape]`; any NaN compares false, except under `Ne`.
    Compare(CompareOp),
    /// `c: bool[shape], a, b -> same`: `a` where `c`, else `b`.
    Select,
    /// `a, b, c -> same`: `a * b + c` with one rounding; `f32` only.
    Fma,
    /// `a -> U[shape]`: conversion by value.
    Cast,
    /// `a -> U[shape]`: same bits, another dtype of the same width.
    Bitcast,

    // Shape.
    /// `a -> T[shape]`: axes matched from the last, sides of 1 (and missing axes) repeat.
    Broadcast,
    /// `a -> T[shape]`: same elements in row-major order.
    Reshape,
    /// `a -> T[permuted]`: axis `i` of the result is axis `perm[i]` of `a`.
    Transpose(Vec<u8>),
    /// `a -> T[shape]`: elements `start, start + step, …` along `axis`; as many as the result's side.
    Slice {
        /// The axis cut.
        axis: u8,
        /// First element kept.
        start: u32,
        /// Distance between kept elements; at least 1.
        step: u32,
    },
    /// `a, b, … -> T[shape]`: one after the other along `axis`.
    Cat {
        /// The axis that grows.
        axis: u8,
    },
    /// `a, index: int[…] -> T[index shape]`: `a` at `index` along `axis`, the other coordinates
    /// being the result's own; an index outside yields 0.
    Gather {
        /// The axis indexed.
        axis: u8,
    },

    // Combining elements.
    /// `a -> T[without axis]`, `i64` for arg-reductions.
    Reduce {
        /// How elements combine.
        op: ReduceOp,
        /// The axis that goes away.
        axis: u8,
    },
    /// `a -> same`: inclusive prefixes along `axis`.
    Scan {
        /// How elements combine.
        op: ScanOp,
        /// The axis scanned.
        axis: u8,
    },
    /// `a: [m, k], b: [k, n], acc: [m, n] -> [m, n]`: `acc + a · b`. Floats accumulate in `f32`,
    /// `i8` in `i32`.
    Dot {
        /// `a` is given as `[k, m]`.
        transpose_a: bool,
        /// `b` is given as `[n, k]`.
        transpose_b: bool,
    },

    // Memory. Coordinates are integers, one per tensor axis, all of one shape.
    /// `t -> i64`: the extent of an axis.
    Dim {
        /// The axis asked for.
        axis: u8,
    },
    /// `t, start: i64, length: i64 -> t`: a view of `length` elements of `axis` from `start`, both
    /// clamped so that the view lies within `t`.
    Narrow {
        /// The axis narrowed.
        axis: u8,
    },
    /// `t, index: i64 -> t of one rank less`: the view at `index` of `axis`; empty if it is outside.
    Pick {
        /// The axis that goes away.
        axis: u8,
    },
    /// `list, index: i64 -> t`: one tensor of the list; an empty view if `index` is outside.
    ListItem,
    /// `t, coordinate…, [mask: bool], fill: scalar -> T[shape]`: `fill` outside the tensor's shape or
    /// where the mask is false.
    Load {
        /// Whether there is a mask operand.
        masked: bool,
    },
    /// `t, coordinate…, [mask: bool], value`: nothing happens outside or where the mask is false.
    Store {
        /// Whether there is a mask operand.
        masked: bool,
    },
    /// `t, origin…, fill: scalar -> T[shape]`: the rectangle of the result's shape at `origin`
    /// (`i64` scalars, one per axis; the tile's rank is the tensor's).
    LoadTile,
    /// `t, origin…, value`: the rectangle at `origin`.
    StoreTile,
    /// `t, coordinate…, value -> T[shape]`: the old value, 0 where outside.
    AtomicRmw(AtomicOp),
    /// `t, coordinate…, expected, value -> T[shape]`: the old value, 0 where outside; stores `value`
    /// where the old value's bits are `expected`'s.
    AtomicCas,

    // Between programs. Persistent kernels only.
    /// `counters, index: i64, n: u32`: adds, releasing this program's earlier writes.
    CounterAdd,
    /// `counters, index: i64, n: u32`: waits until the counter is at least `n`, acquiring.
    CounterWait,
    /// `()`: waits until every program of the grid is here; earlier writes become visible to all.
    GridBarrier,

    // For people.
    /// `c: bool[shape]`: an error with the message if any element is false.
    Assert {
        /// What the error says.
        message: String,
    },
    /// `value…`: prints the text with each `{}` replaced by a value.
    Print {
        /// The text.
        format: String,
    },

    // Control. Loop-carried values are operands, region arguments, yielded values and results alike.
    /// `low: i64, high: i64, step: i64, init… -> carried…`; one region with arguments `index: i64,
    /// carried…`, ending in `Yield`. Runs for `low, low + step, …` below `high`; `step` below 1 runs
    /// as 1, and the loop ends where the index would overflow.
    For,
    /// `init… -> carried…`; a region ending in `Condition` and a region ending in `Yield`.
    While,
    /// `c: bool -> result…`; two regions ending in `Yield`.
    If,
    /// Ends a region, giving its values.
    Yield,
    /// `c: bool, carried…`: ends the first region of `While`; the carried values go to the second
    /// region, or become the results.
    Condition,
    /// Ends the kernel.
    Return,
}

/// One operand, result the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnaryOp {
    /// Negation; integers wrap.
    Neg,
    /// Absolute value; `MIN` of a signed integer stays.
    Abs,
    /// Bitwise complement; logical for `bool`.
    Not,
    /// Bits in reverse order; integers.
    ReverseBits,
    /// e^x.
    Exp,
    /// 2^x.
    Exp2,
    /// Natural logarithm.
    Log,
    /// Logarithm to base 2.
    Log2,
    /// Square root, correctly rounded.
    Sqrt,
    /// 1 / sqrt(x).
    Rsqrt,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// The error function.
    Erf,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
}

/// Two operands and a result of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinaryOp {
    /// Sum; integers wrap.
    Add,
    /// Difference; integers wrap.
    Sub,
    /// Product; integers wrap.
    Mul,
    /// Quotient; integers truncate, `x / 0 = 0`, `MIN / -1 = MIN`.
    Div,
    /// Remainder with the sign of the dividend; `x % 0 = x` for integers.
    Rem,
    /// Smaller; NaN if either is; -0 is below +0.
    Min,
    /// Larger; NaN if either is; +0 is above -0.
    Max,
    /// Bitwise and; integers and `bool`.
    And,
    /// Bitwise or; integers and `bool`.
    Or,
    /// Bitwise exclusive or; integers and `bool`.
    Xor,
    /// Shift left; an amount outside 0..width yields 0.
    Shl,
    /// Shift right, arithmetic for signed integers; an amount outside 0..width shifts everything out.
    Shr,
}

/// Comparisons; integers, `f32`, and (`Eq`, `Ne` only) `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CompareOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// Reductions along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReduceOp {
    /// Sum; `f32` or integers, which wrap.
    Sum,
    /// Largest; NaN if any is.
    Max,
    /// Smallest; NaN if any is.
    Min,
    /// Index of the first NaN, else of the first largest.
    ArgMax,
    /// Index of the first NaN, else of the first smallest.
    ArgMin,
    /// Whether any is true; `bool`.
    Any,
    /// Whether all are true; `bool`.
    All,
}

/// Inclusive scans along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScanOp {
    /// Running sum.
    Sum,
    /// Running maximum.
    Max,
    /// Running minimum.
    Min,
}

/// Read-modify-write operations on one element at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AtomicOp {
    /// Adds; `i32`, `u32`, `i64`, `u64`, `f32`.
    Add,
    /// Keeps the larger; integers.
    Max,
    /// Keeps the smaller; integers.
    Min,
    /// Replaces; 32- and 64-bit dtypes.
    Exchange,
}

impl OpKind {
    /// Whether the operation must stay where it is even if nobody uses its results: it writes,
    /// waits, shows something to a person, or ends a region.
    pub fn has_effect(&self) -> bool {
        matches!(
            self,
            OpKind::Store { .. }
                | OpKind::StoreTile
                | OpKind::AtomicRmw(_)
                | OpKind::AtomicCas
                | OpKind::CounterAdd
                | OpKind::CounterWait
                | OpKind::GridBarrier
                | OpKind::Assert { .. }
                | OpKind::Print { .. }
                | OpKind::Yield
                | OpKind::Condition
                | OpKind::Return
        )
    }

    /// Whether the operation ends a region.
    pub fn is_terminator(&self) -> bool {
        matches!(self, OpKind::Yield | OpKind::Condition | OpKind::Return)
    }

    /// Number of regions the operation has.
    pub fn region_count(&self) -> usize {
        match self {
            OpKind::For => 1,
            OpKind::While | OpKind::If => 2,
            _ => 0,
        }
    }
}
