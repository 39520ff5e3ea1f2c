fn softmax_row<T: Float, const BLOCK: usize>(x: &Tensor<T, 2>, out: &mut Tensor<T, 2>) {
    let at = (program_id(0), arange(BLOCK));
    assert!(x.dim(1) <= BLOCK, "a row fits a tile");
    let v = x.load_or(at, f32::NEG_INFINITY).to_f32();
    let e = exp(v - v.max());
    out.store(at, e / e.sum());
}
