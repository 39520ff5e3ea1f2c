fn rms_norm<T: Float, const BLOCK: usize>(
    x: &Tensor<T, 2>,
    weight: &Tensor<T, 1>,
    out: &mut Tensor<T, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let cols = x.dim(1);
    let mut squares = zeros::<f32, 1>([BLOCK]);
    for start in tiles(cols, BLOCK) {
        let v = x.load((row, start + arange(BLOCK)));
        squares += v * v;
    }
    let scale = rsqrt(squares.sum() / cols.to_f32() + eps);
    for start in tiles(cols, BLOCK) {
        let at = start + arange(BLOCK);
        out.store((row, at), x.load((row, at)) * scale * weight.load(at));
    }
}
