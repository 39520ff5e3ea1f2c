//! The operations of Device IR, by family. Each variant says what its operands and results are.
//!
//! Notation: `a x n` is a value of n registers. Where operands have different numbers of registers, each has
//! either the result's number or 1, and the one register then stands for all.

use crate::program::{Constants, Shared};
pub use metile_ir::tile::{AtomicOp, BinaryOp, CompareOp, UnaryOp};

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Where the thread is, and what the launch passed.
    Position(PositionOp),
    /// Arithmetic and moves within a thread.
    Register(RegisterOp),
    /// Reading and writing memory.
    Memory(MemoryOp),
    /// Registers of other lanes of the warp.
    Exchange(ExchangeOp),
    /// Waiting, and making writes visible.
    Sync(SyncOp),
    /// Matrix units.
    Matrix(MatrixOp),
    /// Copies that run beside the threads.
    Copy(CopyOp),
    /// Loops and branches.
    Control(ControlOp),
    /// Telling the host.
    Report(ReportOp),
}

/// Where the thread is, and what the launch passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionOp {
    /// `() -> i64`: the block's number in the launch.
    Block,
    /// `() -> i64`: how many blocks the launch has.
    Blocks,
    /// `() -> i32`: the thread's number in its block: 32 · warp + lane.
    Thread,
    /// `() -> i32`: the lane, 0 to 31.
    Lane,
    /// `() -> i32`: the warp.
    Warp,
    /// `() -> see` [`Word::ty`](crate::program::Word::ty): word `n` of the arguments.
    Word(u32),
}

/// Arithmetic and moves within a thread. Meanings are Tile IR's: integers wrap, x / 0 = 0, x % 0 = x, shifts
/// beyond the width shift everything out, `max` and `min` propagate NaN, float-to-int casts saturate.
#[derive(Clone, Debug, PartialEq)]
pub enum RegisterOp {
    /// `() -> T x n`: one scalar for each register; all of one dtype.
    Constant(Constants),
    /// `a -> same`.
    Unary(UnaryOp),
    /// `a, b -> same`.
    Binary(BinaryOp),
    /// `a, b -> bool x n`.
    Compare(CompareOp),
    /// `c: bool, a, b -> same as a`: `a` where `c`, else `b`.
    Select,
    /// `a, b, c -> same`: `a * b + c` with one rounding; `f32`.
    Fma,
    /// `a -> U x n`: conversion by value.
    Cast,
    /// `a -> U x n`: same bits, another dtype of the same width.
    Bitcast,
    /// `a -> same`: which is the same in every thread of the block. Whoever makes the program vouches for that.
    Uniform,
    /// `a x m -> a x n`: register `i` is `a`'s register `from[i]`.
    Pick(Vec<u32>),
    /// `a x n, b x m, … -> x n + m + …`: one after the other.
    Join,
    /// `a: u32 x n/2 -> f16 or bf16 x n`, lower halves first; or the other way round.
    Pack,
}

/// Reading and writing memory.
///
/// Accesses come in *groups*: `width` elements that lie side by side. Group `g` begins at element
/// `offset[g] + immediates[g]`, and is aligned to its size. With a mask, a group whose bit is false touches no memory.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryOp {
    /// `pointer, offset: i64 or i32, [mask: bool, fill: T] -> T x groups · width`: from the device's memory.
    Load {
        /// Elements of a group: 1, 2, 4, 8 or 16, at most 16 bytes.
        width: u8,
        /// Added to the offset of each group.
        immediates: Vec<i64>,
        /// Whether there are a mask and a fill.
        masked: bool,
        /// Whether nobody writes there during the launch.
        constant: bool,
    },
    /// `pointer, offset, [mask], value`: to the device's memory.
    Store {
        /// As for `Load`.
        width: u8,
        /// As for `Load`.
        immediates: Vec<i64>,
        /// Whether there is a mask.
        masked: bool,
    },
    /// `offset: i32 -> T x groups · width`: from shared memory; offsets in elements of the result.
    LoadShared {
        /// The buffer.
        buffer: Shared,
        /// As for `Load`.
        width: u8,
        /// As for `Load`.
        immediates: Vec<i64>,
    },
    /// `offset: i32, [mask], value`: to shared memory; offsets in elements of the value.
    StoreShared {
        /// The buffer.
        buffer: Shared,
        /// As for `Load`.
        width: u8,
        /// As for `Load`.
        immediates: Vec<i64>,
        /// Whether there is a mask.
        masked: bool,
    },
    /// `pointer, offset x n, mask x n, value x n -> old x n`: one element a register, no particular order between
    /// threads; 0 where the mask is false.
    Atomic(AtomicOp),
    /// `pointer, offset x n, mask x n, expected x n, value x n -> old x n`.
    AtomicCas,
    /// `table: pointer u64, index: i64 -> pointer`: entry `index` of a table of addresses.
    Entry,
}

/// Registers of other lanes of the warp. Every lane takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeOp {
    /// `a -> same`: of the lane whose number differs in these bits.
    Xor(u8),
    /// `a, lane: i32 -> same`: of the lane given.
    Index,
}

/// Waiting, and making writes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOp {
    /// `()`: all threads of the block are here, and see what the others wrote before, shared and in the device's memory.
    Barrier,
    /// `()`: all lanes of the warp are here, and see what the others wrote to shared memory.
    WarpBarrier,
    /// `()`: what this thread wrote to shared memory, or copied there and waited for, is visible to matrix units that read it there, after a barrier.
    AsyncFence,
    /// `counter: pointer u32`: all threads of all blocks are here, and see what the others wrote.
    GridBarrier,
    /// `pointer u32, offset: i64, mask: bool, n: u32`: adds for each thread whose mask is true (one of a block), releasing what the block wrote before the barrier that came before.
    CounterAdd,
    /// `pointer u32, offset: i64, mask: bool, n: u32`: waits until the counter is at least `n`, acquiring; a barrier follows.
    CounterWait,
}

/// A product that four neighbouring warps (a *warpgroup*, the first of them a multiple of four) compute at once, both operands in shared
/// memory (`wgmma`).
///
/// An operand is a matrix of 16-bit elements, `outer` rows of contiguous elements, stored in columns of 64: column `c` holds elements
/// 64·c to 64·c + 63 of all rows, 128 bytes a row, and in each row the 16-byte unit `u` lies at place `u ^ (row % 8)`. Either
/// the rows run along the product's sum ([`WgmmaOperand::sum_inside`]) or the columns do. A matrix begins at a multiple of 1,024 bytes.
///
/// The sums of a warpgroup are `row_blocks` × 64 rows by `columns`, in `f32` registers: bit 0 of the register's number is column
/// bit 0, bit 1 row bit 3, further bits column bits 3 and up, then row bits 6 and up; lane bits 0 and 1 are column bits 1 and 2, lane bits 2 to 4 row bits
/// 0 to 2; the warp within its group is row bits 4 and 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wgmma {
    /// `F16` or `BF16`.
    pub dtype: metile_ir::DType,
    /// How many times 64 rows a warpgroup has.
    pub row_blocks: u8,
    /// Columns, a multiple of 8; above 256 in several instructions.
    pub columns: u16,
    /// Elements summed along, a multiple of 16.
    pub sum: u16,
    /// The left operand.
    pub a: WgmmaOperand,
    /// The right operand.
    pub b: WgmmaOperand,
    /// Whether it may still be under way when the next statement begins: then nothing but [`MatrixOp::WgmmaWait`] may read its sums, and
    /// its operands stay as they are until that.
    pub in_flight: bool,
}

/// How an operand of [`Wgmma`] lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WgmmaOperand {
    /// The buffer.
    pub buffer: Shared,
    /// Rows of contiguous elements.
    pub outer: u16,
    /// Whether the rows run along the sum.
    pub sum_inside: bool,
}

/// A product that one warp computes at once, operands in registers in the layout that PTX defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaAtom {
    /// 16×16 by 16×8, f16 with f32 sums.
    F16M16N8K16,
    /// 16×16 by 16×8, bf16 with f32 sums.
    Bf16M16N8K16,
    /// 16×8 by 8×8, f32 rounded to TF32.
    Tf32M16N8K8,
    /// 16×32 by 32×8, i8 with i32 sums.
    I8M16N8K32,
}

/// Matrix units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatrixOp {
    /// `a: u32 x 4 (or as the atom has), b: u32 x 2, c: x 4 -> x 4`: `c + a · b`, pairs of 16-bit elements in a register.
    Mma(MmaAtom),
    /// `offset: i32 (elements of 16 bits) -> u32 x matrices`: 8×8 matrices of 16-bit elements from shared memory, the lanes
    /// giving the addresses of rows (`ldmatrix`).
    LoadMatrix {
        /// The buffer.
        buffer: Shared,
        /// 1, 2 or 4.
        matrices: u8,
        /// Whether each is transposed on the way.
        transposed: bool,
    },
    /// `a: i32, b: i32 (byte offsets of the matrices in their buffers), c: f32 x row_blocks · columns / 2 -> same`: `c + a · b`, where row 0 of `a` is the warpgroup's first.
    /// Begins when the warpgroup's threads are here and ends when the sums are there; what threads wrote to the operands was made
    /// visible by [`SyncOp::AsyncFence`] and a barrier.
    Wgmma(Wgmma),
    /// `sums: f32 x n -> same`: what a product in flight gave, when all of the warp's are done.
    WgmmaWait,
    /// `value: T -> fragment`: every element of every matrix.
    FillFragment,
    /// `offset: i32 -> fragment`: from shared memory, row by row.
    LoadFragment {
        /// The buffer.
        buffer: Shared,
        /// Elements from row to row.
        stride: u32,
        /// Whether rows and columns change places.
        transposed: bool,
        /// Element offsets of the matrices.
        immediates: Vec<i64>,
    },
    /// `fragment, offset: i32`: to shared memory.
    StoreFragment {
        /// The buffer.
        buffer: Shared,
        /// Elements from row to row.
        stride: u32,
        /// Element offsets of the matrices.
        immediates: Vec<i64>,
    },
    /// `a: fragment x m·k, b: fragment x k·n, c: fragment x m·n -> same as c`: `c + a · b` by matrices, each row-major.
    MultiplyFragments {
        /// Matrices along m.
        m: u8,
        /// Matrices along n.
        n: u8,
        /// Matrices along k.
        k: u8,
    },
}

/// Copies that run beside the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOp {
    /// `pointer, offset: i64, shared offset: i32, mask: bool`: 4, 8 or 16 bytes a group from the device's memory to shared memory, zeros where the mask is false.
    Async {
        /// The buffer.
        buffer: Shared,
        /// Bytes of a group.
        bytes: u8,
        /// Added to the offset in the device's memory, in elements of the pointer.
        immediates: Vec<i64>,
        /// Added to the offset in shared memory, in the same elements.
        shared_immediates: Vec<i64>,
    },
    /// `() -> token`: the copies that this thread began since the last such statement.
    Commit,
    /// `()`: waits until at most `pending` of the groups that this thread committed are still under way. Others see them after a barrier.
    Wait {
        /// How many may be.
        pending: u8,
    },
}

/// Loops and branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlOp {
    /// `low, high, step (i64 or i32), init… -> carried…`: one block with arguments `index, carried…`. Runs for `low, low + step, …` below `high`; `step` below
    /// 1 runs as 1, and the loop ends where the index would overflow.
    For {
        /// Whether the back-end should unroll it.
        unroll: bool,
    },
    /// `init… -> carried…`: a block ending in `Condition` and one ending in `Yield`.
    While,
    /// `c: bool -> result…`: two blocks ending in `Yield`.
    If,
    /// Ends a block, giving its values.
    Yield,
    /// `c: bool, carried…`: ends the first block of `While`.
    Condition,
}

/// Telling the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportOp {
    /// `report: mut pointer u64, ok: bool x n, element: i32 x n`: where a register is false, the first thread of the launch to get there writes
    /// `[1 + message, block, element]`.
    Assert {
        /// Index into [`Program::messages`](crate::program::Program::messages).
        message: u32,
    },
}
