fn layer_norm<const BLOCK: usize>(
    x: &Tensor<f32, 2>,
    weight: &Tensor<f32, 1>,
    bias: &Tensor<f32, 1>,
    out: &mut Tensor<f32, 2>,
    eps: f32,
) {
    let row = program_id(0);
    let n = x.dim(1).to_f32();
    let lane = arange(BLOCK);
    let v = x.load((row, lane));
    let mean = v.sum() / n;
    let centred = select(lane < x.dim(1), v - mean, 0.0);
    let scale = rsqrt((centred * centred).sum() / n + eps);
    out.store((row, lane), fma(centred * scale, weight.load(lane), bias.load(lane)));
}
