//! Rows of a table, picked by index.

use metile::KernelCall;
use metile::prelude::*;

/// out[r, :] = table[ids[r], :], for rows r below state[1].
///
/// `ids`: [rows]; `table`: [vocabulary, width], dense or packed; `out`: [rows, width]; `state`: [2]. An id
/// outside of the table gives zeros. One program per row and BLOCK columns.
#[kernel]
pub fn embed_rows<W: Weight, const BLOCK: usize>(
    ids: &Tensor<i64, 1>,
    table: &Tensor<W, 2>,
    out: &mut Tensor<f32, 2>,
    state: &Tensor<i64, 1>,
) {
    let row = program_id(1);
    assert!(
        out.dim(1) == table.dim(1) && out.dim(0) == ids.dim(0),
        "out has a row for each id, as wide as the table"
    );
    if row < state.load(1) {
        let at = program_id(0) * BLOCK + arange(BLOCK);
        out.store((row, at), table.load((ids.load(row), at)).to_f32());
    }
}

/// [`embed_rows`] for the decoder: all of `out`'s rows that `state` calls valid.
pub fn embed<'c, W: Weight>(
    ids: &'c Tensor<i64, 1>,
    table: &'c Tensor<W, 2>,
    out: &'c mut Tensor<f32, 2>,
    state: &'c Tensor<i64, 1>,
) -> KernelCall<'c> {
    let [rows, width] = out.shape();
    match width {
        0..=256 => embed_rows::<W, 256>(ids, table, out, state).grid((1, rows)),
        _ => embed_rows::<W, 2048>(ids, table, out, state).grid((width.div_ceil(2048), rows)),
    }
}

/// out[r, :] = table[ids[r], :].
///
/// `ids`: [rows]; `table`: [vocabulary, width], dense or packed; `out`: [rows, width] of any float. An
/// id outside of the table gives zeros. One program per row and BLOCK columns.
#[kernel]
pub fn embedding_rows<W: Weight, O: Float, const BLOCK: usize>(
    ids: &Tensor<i64, 1>,
    table: &Tensor<W, 2>,
    out: &mut Tensor<O, 2>,
) {
    let row = program_id(1);
    assert!(
        out.dim(1) == table.dim(1) && out.dim(0) == ids.dim(0),
        "out has a row for each id, as wide as the table"
    );
    let at = program_id(0) * BLOCK + arange(BLOCK);
    out.store((row, at), table.load((ids.load(row), at)));
}

/// Embedding gather: [`embedding_rows`] of all rows.
pub fn embedding<'c, W: Weight, O: Float>(
    ids: &'c Tensor<i64, 1>,
    table: &'c Tensor<W, 2>,
    out: &'c mut Tensor<O, 2>,
) -> KernelCall<'c> {
    let [rows, width] = out.shape();
    match width {
        0..=256 => embedding_rows::<W, O, 256>(ids, table, out).grid((1, rows)),
        _ => embedding_rows::<W, O, 2048>(ids, table, out).grid((width.div_ceil(2048), rows)),
    }
}
