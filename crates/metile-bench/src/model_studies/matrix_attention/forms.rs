//! Attention in other arithmetic, in the language: what is validated before anyone makes it fast and the library
//! takes it.

use metile::KernelCall;
use metile::prelude::*;
use metile_models::decoder::Attention;

/// How scores are formed, exponentiated and multiplied with the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionForm {
    /// The query is scaled before the product, instead of the score after it.
    PrescaledQuery,
    /// 2^(s · log₂e) for e^s, with log₂e part of the scale.
    BaseTwo,
    /// Both: the query is multiplied by scale · log₂e.
    PrescaledBaseTwo,
    /// Weights are rounded to bf16 before they meet the values; sums stay f32.
    Bf16Weights,
}

impl AttentionForm {
    /// Every form.
    pub const ALL: [AttentionForm; 4] = [
        AttentionForm::PrescaledQuery,
        AttentionForm::BaseTwo,
        AttentionForm::PrescaledBaseTwo,
        AttentionForm::Bf16Weights,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            AttentionForm::PrescaledQuery => "prescaled-query",
            AttentionForm::BaseTwo => "base-two",
            AttentionForm::PrescaledBaseTwo => "prescaled-base-two",
            AttentionForm::Bf16Weights => "bf16-weights",
        }
    }

    /// The form called `name`.
    pub fn from_name(name: &str) -> Option<AttentionForm> {
        AttentionForm::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// out[r, h] = Σⱼ softmaxⱼ(scale · q[r, h] · k[j]) · v[j] over keys j ≤ state[0] + r, for rows r below state[1], in
/// the form that PRESCALED, BASE_TWO and ROUNDED say; the softmax online (Milakov and Gimelshein, 2018).
///
/// `q`: [rows, heads, head_dim], heads a multiple of kv_heads; `keys`, `values`: [kv_heads, capacity, head_dim] ; `out`: [rows, heads · head_dim]; `state`: [2], the position of row 0 and the rows that count. One
/// program per query head and BQ rows; head_dim ≤ D.
#[kernel]
pub fn attention_form_tiles<
    const PRESCALED: bool,
    const BASE_TWO: bool,
    const ROUNDED: bool,
    const BQ: usize,
    const BK: usize,
    const D: usize,
>(
    q: &Tensor<f32, 3>,
    keys: &Tensor<f32, 3>,
    values: &Tensor<f32, 3>,
    out: &mut Tensor<f32, 2>,
    state: &Tensor<i64, 1>,
    scale: f32,
) {
    let (head, first) = (program_id(0), program_id(1) * BQ);
    let (width, group) = (q.dim(2), q.dim(1) / keys.dim(0));
    assert!(
        width <= D
            && width == keys.dim(2)
            && q.dim(1) == group * keys.dim(0)
            && keys.dim(0) == values.dim(0)
            && keys.dim(1) == values.dim(1)
            && keys.dim(2) == values.dim(2)
            && out.dim(0) == q.dim(0)
            && out.dim(1) == q.dim(1) * width,
        "q is [rows, heads, head_dim], out is [rows, heads · head_dim], heads are a multiple of the cache's"
    );
    let count = min(state.load(1), q.dim(0));
    if first < count {
        let past = state.load(0);
        let length = min(past + min(first + BQ, count), keys.dim(1));
        let k = keys.pick(0, head / group).narrow(0, 0, length);
        let v = values.pick(0, head / group).narrow(0, 0, length);
        let factor = if BASE_TWO { scale * std::f32::consts::LOG2_E } else { scale };
        let raw = q.pick(1, head).load_tile((first, 0), [BQ, D]);
        let queries = if PRESCALED { raw * factor } else { raw };
        let after = if PRESCALED { full::<f32, 0>([], 1.0) } else { factor };
        let last = past + first + arange(BQ);
        let mut peak = full::<f32, 1>([BQ], f32::NEG_INFINITY);
        let mut total = zeros::<f32, 1>([BQ]);
        let mut acc = zeros::<f32, 2>([BQ, D]);
        for start in step_range(0, length, BK) {
            let column = start + arange(BK);
            let scores = dot(queries, k.load_tile((start, 0), [BK, D]).t()) * after;
            let visible = column.expand(0) <= last.expand(1) && (column < length).expand(0);
            let scores = select(visible, scores, f32::NEG_INFINITY);
            let next = max(peak, scores.max_along(1));
            // A row that has seen nothing yet would compute -inf - -inf.
            let base = select(next == f32::NEG_INFINITY, 0.0, next);
            let shifted = scores - base.expand(1);
            let faded = peak - base;
            let weights = if BASE_TWO { exp2(shifted) } else { exp(shifted) };
            let fade = if BASE_TWO { exp2(faded) } else { exp(faded) };
            let met = if ROUNDED { weights.to::<bf16>().to_f32() } else { weights };
            total = total * fade + met.sum_along(1);
            acc = dot_add(met, v.load_tile((start, 0), [BK, D]), acc * fade.expand(1));
            peak = next;
        }
        let valid = out.narrow(0, 0, count).narrow(1, head * width, width);
        // A row that saw nothing gives zeros.
        let sums = select(total == 0.0, 1.0, total);
        valid.store_tile((first, 0), acc / sums.expand(1));
    }
}

/// One form, for heads of up to 64, 128 or 256 elements.
fn call<'c, const PRESCALED: bool, const BASE_TWO: bool, const ROUNDED: bool>(
    q: &'c Tensor<f32, 3>,
    keys: &'c Tensor<f32, 3>,
    values: &'c Tensor<f32, 3>,
    out: &'c mut Tensor<f32, 2>,
    state: &'c Tensor<i64, 1>,
    scale: f32,
) -> KernelCall<'c> {
    let [rows, heads, width] = q.shape();
    let call = match width {
        0..=64 => attention_form_tiles::<PRESCALED, BASE_TWO, ROUNDED, 32, 128, 64>(
            q, keys, values, out, state, scale,
        ),
        65..=128 => attention_form_tiles::<PRESCALED, BASE_TWO, ROUNDED, 32, 128, 128>(
            q, keys, values, out, state, scale,
        ),
        _ => attention_form_tiles::<PRESCALED, BASE_TWO, ROUNDED, 32, 128, 256>(
            q, keys, values, out, state, scale,
        ),
    };
    call.grid((heads, rows.div_ceil(32), 1))
}

impl AttentionForm {
    /// The kernel, as decoders call it.
    pub fn kernel(self) -> Attention {
        match self {
            AttentionForm::PrescaledQuery => call::<true, false, false>,
            AttentionForm::BaseTwo => call::<false, true, false>,
            AttentionForm::PrescaledBaseTwo => call::<true, true, false>,
            AttentionForm::Bf16Weights => call::<false, false, true>,
        }
    }
}
