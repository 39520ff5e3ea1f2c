//! Matrix units of NVIDIA's: `mma.sync` and `ldmatrix`, with the layouts of registers that the PTX ISA gives.
//!
//! A sum is that of exact products in `f64`, with what is added to, rounded once; the hardware rounds in a way that is
//! its own.

use super::block::{Common, Warp};
use super::machine::{ALL, Machine};
use super::memory::read_element;
use super::registers::{LANES, lane, offset};
use super::shared::{Doing, Place};
use crate::ops::MmaAtom;
use crate::program::{Program, Shared, Statement};
use metile_ir::dtype::DType;
use metile_ir::scalar::Scalar;

/// Row and column in the 16×8 matrix of sums: register `n` of a lane.
pub(super) fn place_c(n: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + n / 2 * 8, lane % 4 * 2 + n % 2)
}

/// How the operands of an atom lie in registers.
#[derive(Clone, Copy)]
struct Operands {
    /// Elements that a 32-bit register holds.
    packed: usize,
    /// The length of rows of `a` and columns of `b`.
    k: usize,
    dtype: DType,
}

impl Operands {
    fn of(atom: MmaAtom) -> Operands {
        match atom {
            MmaAtom::F16M16N8K16 => Operands { packed: 2, k: 16, dtype: DType::F16 },
            MmaAtom::Bf16M16N8K16 => Operands { packed: 2, k: 16, dtype: DType::BF16 },
            MmaAtom::Tf32M16N8K8 => Operands { packed: 1, k: 8, dtype: DType::F32 },
            MmaAtom::I8M16N8K32 => Operands { packed: 4, k: 32, dtype: DType::I8 },
        }
    }

    /// Row and column in `a`: register `n`, element `i` of it. Registers go down first: rows 0 to 7, rows 8 to 15,
    /// then the same in the second half of columns.
    fn place_a(self, n: usize, i: usize, lane: usize) -> (usize, usize) {
        let column = n / 2 * (self.k / 2) + lane % 4 * self.packed + i;
        (lane / 4 + n % 2 * 8, column)
    }

    /// Row and column in `b`.
    fn place_b(self, n: usize, i: usize, lane: usize) -> (usize, usize) {
        (n * (self.k / 2) + lane % 4 * self.packed + i, lane / 4)
    }

    /// Element `i` of a register.
    fn element(self, register: u64, i: usize) -> f64 {
        let bits = 32 / self.packed;
        let scalar = Scalar::from_bits(self.dtype, register >> (i * bits));
        match scalar.as_int() {
            Some(n) => n as f64,
            None if self.packed == 1 => f64::from(tf32(register as u32)),
            None => scalar.as_f32().map_or(f64::NAN, f64::from),
        }
    }
}

/// To 10 bits of fraction, to nearest, ties away from zero (`cvt.rna.tf32.f32`).
fn tf32(bits: u32) -> f32 {
    let value = f32::from_bits(bits);
    if !value.is_finite() {
        return value;
    }
    f32::from_bits(bits.wrapping_add(0x1000) & !0x1fff)
}

pub(super) fn multiply(program: &Program, warp: &mut Warp, atom: MmaAtom, s: &Statement) {
    let form = Operands::of(atom);
    let (m, n, k) = (16, 8, form.k);
    let mut a = vec![0.0; m * k];
    let mut b = vec![0.0; k * n];
    for at in ALL {
        for i in 0..form.packed {
            for register in 0..4 {
                let (row, column) = form.place_a(register, i, at);
                a[row * k + column] =
                    form.element(lane(warp.registers.get(s.operands[0]), register, at), i);
            }
            for register in 0..2 {
                let (row, column) = form.place_b(register, i, at);
                b[row * n + column] =
                    form.element(lane(warp.registers.get(s.operands[1]), register, at), i);
            }
        }
    }
    let mut room = warp.registers.room(program.ty(s.results[0]));
    for at in ALL {
        for register in 0..4 {
            let (row, column) = place_c(register, at);
            let sum: f64 = (0..k).map(|x| a[row * k + x] * b[x * n + column]).sum();
            let c = lane(warp.registers.get(s.operands[2]), register, at) as u32;
            room[register * LANES + at] = u64::from(match form.dtype {
                // At most 32 products of 14 bits: exact in f64.
                DType::I8 => (c as i32).wrapping_add(sum as i32) as u32,
                _ => ((f64::from(f32::from_bits(c)) + sum) as f32).to_bits(),
            });
        }
    }
    warp.registers.set(s.results[0], room);
}

/// `ldmatrix`: lane `8 i + r` gives the address of row `r` of matrix `i`; a lane gets two neighbours of row `lane / 4`.
pub(super) fn load(
    m: &mut Machine<'_, '_, '_>,
    common: &mut Common,
    warp: &mut Warp,
    (buffer, matrices, transposed): (Shared, usize, bool),
    step: u32,
) {
    let s = m.code.steps[step as usize].statement;
    let mut room = warp.registers.room(m.program.ty(s.results[0]));
    for i in 0..matrices {
        let mut matrix = [[0u64; 8]; 8];
        for (r, row) in matrix.iter_mut().enumerate() {
            let at = 8 * i + r;
            let first = offset(warp.registers.get(s.operands[0]), false, 0, at) * 2;
            let place = Place { buffer, first, bytes: 16 };
            let bytes = m.shared_access(common, warp, at, step, place, Doing::Read);
            for (to, from) in row.iter_mut().zip(bytes.unwrap_or_default().chunks(2)) {
                *to = read_element(from);
            }
        }
        for at in ALL {
            let (row, column) = (at / 4, at % 4 * 2);
            let of = |column: usize| match transposed {
                true => matrix[column][row],
                false => matrix[row][column],
            };
            room[i * LANES + at] = of(column) | of(column + 1) << 16;
        }
    }
    warp.registers.set(s.results[0], room);
}
