//! Rotary position embedding (Su et al., 2021).

use metile::KernelCall;
use metile::prelude::*;

/// Which two elements of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// i and i + half, half being the number of frequencies.
    Split,
    /// 2i and 2i + 1.
    Interleaved,
}

/// For pair (a, b) number i of each head, at the angle φ = (state[0] + r) · frequencies[i]:
/// a' = a cos φ − b sin φ, b' = b cos φ + a sin φ; in place, for rows r below state[1].
///
/// `x`: [rows, heads, head_dim]; `frequencies`: [half], 2·half ≤ head_dim, half ≤ HALF; `state`: [2]. Elements
/// from 2·half on stay. The pairs are (2i, 2i + 1) if INTERLEAVED, else (i, i + half). The angle is an
/// f32 product. One program per row and stretch of HEADS heads, which goes on by as many stretches as the grid has
/// programs along axis 1.
#[kernel]
pub fn rope_heads<const INTERLEAVED: bool, const HEADS: usize, const HALF: usize>(
    x: &mut Tensor<f32, 3>,
    frequencies: &Tensor<f32, 1>,
    state: &Tensor<i64, 1>,
) {
    let row = program_id(0);
    let half = frequencies.dim(0);
    assert!(half <= HALF && half * 2 <= x.dim(2), "the frequencies fit a tile and turn one head");
    if row < state.load(1) {
        let lane = arange(HALF);
        let angle = (state.load(0) + row).to_f32() * frequencies.load(lane);
        let (c, s) = (cos(angle).expand(0), sin(angle).expand(0));
        // Views end at the last pair, so that lanes beyond it touch nothing.
        let both = x.narrow(2, 0, half * 2);
        let first = if INTERLEAVED { both } else { x.narrow(2, 0, half) };
        let second = if INTERLEAVED { both } else { x.narrow(2, half, half) };
        let (at_a, at_b) = if INTERLEAVED { (lane * 2, lane * 2 + 1) } else { (lane, lane) };
        let stride = num_programs(1) * HEADS;
        for start in step_range(program_id(1) * HEADS, x.dim(1), stride) {
            let head = (start + arange(HEADS)).expand(1);
            let a = first.load((row, head, at_a.expand(0)));
            let b = second.load((row, head, at_b.expand(0)));
            first.store((row, head, at_a.expand(0)), a * c - b * s);
            second.store((row, head, at_b.expand(0)), b * c + a * s);
        }
    }
}

/// Rotary position embedding, in place: see [`rope_heads`]. At most 512 frequencies.
pub fn rope<'c>(
    x: &'c mut Tensor<f32, 3>,
    frequencies: &'c Tensor<f32, 1>,
    state: &'c Tensor<i64, 1>,
    style: RopeStyle,
) -> KernelCall<'c> {
    let [rows, heads, _] = x.shape();
    let [half] = frequencies.shape();
    // The heads of one row are shared out; of several rows each program has all of one.
    let (stretch, programs) = if rows == 1 { (4, heads.div_ceil(4).max(1)) } else { (16, 1) };
    let call = match (style, half, stretch) {
        (RopeStyle::Split, 0..=32, 4) => rope_heads::<false, 4, 32>(x, frequencies, state),
        (RopeStyle::Split, 0..=32, _) => rope_heads::<false, 16, 32>(x, frequencies, state),
        (RopeStyle::Split, 33..=64, 4) => rope_heads::<false, 4, 64>(x, frequencies, state),
        (RopeStyle::Split, 33..=64, _) => rope_heads::<false, 16, 64>(x, frequencies, state),
        (RopeStyle::Split, ..) => rope_heads::<false, 4, 512>(x, frequencies, state),
        (RopeStyle::Interleaved, 0..=32, 4) => rope_heads::<true, 4, 32>(x, frequencies, state),
        (RopeStyle::Interleaved, 0..=32, _) => rope_heads::<true, 16, 32>(x, frequencies, state),
        (RopeStyle::Interleaved, 33..=64, 4) => rope_heads::<true, 4, 64>(x, frequencies, state),
        (RopeStyle::Interleaved, 33..=64, _) => rope_heads::<true, 16, 64>(x, frequencies, state),
        (RopeStyle::Interleaved, ..) => rope_heads::<true, 4, 512>(x, frequencies, state),
    };
    call.grid((rows, programs))
}
