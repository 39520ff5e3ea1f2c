//! Operations on one element at a time, and conversions.

use super::build::Generator;
use crate::dtype::DType;
use crate::tile::{BinaryOp, CompareOp, OpKind, TileType, UnaryOp};

/// Defined to the last bit everywhere.
const EXACT: [UnaryOp; 8] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Not,
    UnaryOp::ReverseBits,
    UnaryOp::Sqrt,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
];

const INEXACT: [UnaryOp; 10] = [
    UnaryOp::Exp,
    UnaryOp::Exp2,
    UnaryOp::Log,
    UnaryOp::Log2,
    UnaryOp::Rsqrt,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Erf,
];

/// Those that floats have, first.
pub(super) const BINARY: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Mul,
    BinaryOp::Sub,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
];

pub(super) const COMPARE: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

pub(super) fn unary_fits(op: UnaryOp, dtype: DType) -> bool {
    match op {
        UnaryOp::Neg | UnaryOp::Abs => dtype.is_arithmetic(),
        UnaryOp::Not => dtype.is_int() || dtype == DType::Bool,
        UnaryOp::ReverseBits => dtype.is_int(),
        _ => dtype == DType::F32,
    }
}

fn binary_fits(op: BinaryOp, dtype: DType) -> bool {
    match op {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => dtype.is_int() || dtype == DType::Bool,
        BinaryOp::Shl | BinaryOp::Shr => dtype.is_int(),
        _ => dtype.is_arithmetic(),
    }
}

impl Generator<'_, '_> {
    pub(super) fn elementwise(&mut self) -> Option<()> {
        match self.choices.below(16) {
            0..=3 => self.unary()?,
            4..=9 => {
                let op = self.choices.pick(&BINARY)?;
                let a = self.any(|t| binary_fits(op, t.dtype))?;
                let b = self.want(self.ty(a)?)?;
                let pair = if self.choices.chance(64) { [b, a] } else { [a, b] };
                self.op(OpKind::Binary(op), &pair, None)?
            }
            10 | 11 => {
                let op = self.choices.pick(&COMPARE)?;
                let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
                let fits = |d: DType| d.is_arithmetic() || (equality && d == DType::Bool);
                let a = self.any(|t| fits(t.dtype))?;
                let b = self.want(self.ty(a)?)?;
                let pair = if self.choices.chance(64) { [b, a] } else { [a, b] };
                self.op(OpKind::Compare(op), &pair, None)?
            }
            12 | 13 => {
                let a = self.any(|_| true)?;
                let ty = self.ty(a)?;
                let b = self.want(ty)?;
                let c = self.want(TileType::new(DType::Bool, ty.shape))?;
                self.op(OpKind::Select, &[c, a, b], None)?
            }
            _ => {
                let a = self.any(|t| t.dtype == DType::F32)?;
                let ty = self.ty(a)?;
                let (b, c) = (self.want(ty)?, self.want(ty)?);
                self.op(OpKind::Fma, &[a, b, c], None)?
            }
        };
        Some(())
    }

    fn unary(&mut self) -> Option<crate::tile::Value> {
        let mut ops = EXACT.to_vec();
        if self.limits.inexact {
            ops.extend(INEXACT);
        }
        let op = self.choices.pick(&ops)?;
        let a = self.any(|t| unary_fits(op, t.dtype))?;
        self.op(OpKind::Unary(op), &[a], None)
    }

    pub(super) fn convert(&mut self) -> Option<()> {
        let a = self.any(|_| true)?;
        let ty = self.ty(a)?;
        if self.choices.below(3) < 2 {
            let to = TileType::new(self.dtype(), ty.shape);
            self.op(OpKind::Cast, &[a], Some(to))?;
            return Some(());
        }
        let same_width: Vec<DType> = DType::ALL
            .into_iter()
            .filter(|d| d.bits() == ty.dtype.bits() && *d != DType::Bool)
            // Into an integer, a float's bits show.
            .filter(|d| self.limits.payloads || !ty.dtype.is_float() || d == &ty.dtype)
            .collect();
        if ty.dtype == DType::Bool {
            return None;
        }
        let to = TileType::new(self.choices.pick(&same_width)?, ty.shape);
        self.op(OpKind::Bitcast, &[a], Some(to))?;
        Some(())
    }
}
