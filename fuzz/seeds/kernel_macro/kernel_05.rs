fn attention<const BQ: usize, const BK: usize, const D: usize>(
    q: &Tensor<f32, 2>,
    k: &Tensor<f32, 2>,
    v: &Tensor<f32, 2>,
    out: &mut Tensor<f32, 2>,
    length: i64,
    scale: f32,
) {
    let first = program_id(0) * BQ;
    let rows = first + arange(BQ);
    let last_key = rows + (length - q.dim(0));
    let (keys, values) = (k.narrow(0, 0, length), v.narrow(0, 0, length));
    let queries = q.load_tile((first, 0), [BQ, D]);
    let mut peak = full::<f32, 1>([BQ], f32::NEG_INFINITY);
    let mut total = zeros::<f32, 1>([BQ]);
    let mut acc = zeros::<f32, 2>([BQ, D]);
    for start in tiles(length, BK) {
        let column = start + arange(BK);
        let seen = column.expand(0) <= last_key.expand(1) && column.expand(0) < length;
        let scores = dot(queries, keys.load_tile((start, 0), [BK, D]).t()) * scale;
        let scores = select(seen, scores, f32::NEG_INFINITY);
        let next = max(peak, scores.max_along(1));
        // A row that has seen nothing yet would compute -inf - -inf.
        let base = select(next == f32::NEG_INFINITY, 0.0, next);
        let weights = exp(scores - base.expand(1));
        let fade = exp(peak - base);
        total = total * fade + weights.sum_along(1);
        acc = dot_add(weights, values.load_tile((start, 0), [BK, D]), acc * fade.expand(1));
        peak = next;
    }
    let safe = select(total == 0.0, 1.0, total);
    out.store_tile((first, 0), acc / safe.expand(1));
}
