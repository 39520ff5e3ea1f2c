fn softmax_online<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let row = program_id(0);
    let cols = x.dim(1);
    let mut peak = f32::NEG_INFINITY;
    let mut total = 0.0;
    for start in tiles(cols, BLOCK) {
        let v = x.load_or((row, start + arange(BLOCK)), f32::NEG_INFINITY).to_f32();
        let next = max(peak, v.max());
        total = total * exp(peak - next) + exp(v - next).sum();
        peak = next;
    }
    for start in tiles(cols, BLOCK) {
        let at = (row, start + arange(BLOCK));
        let v = x.load(at).to_f32();
        out.store(at, exp(v - peak) / total);
    }
}
