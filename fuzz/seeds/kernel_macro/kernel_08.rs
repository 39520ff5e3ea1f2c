fn add<T: Float, const BLOCK: usize>(x: &Tensor<T, 1>, y: &Tensor<T, 1>, out: &mut Tensor<T, 1>) {
    let at = program_id(0) * BLOCK + arange(BLOCK);
    out.store(at, x.load(at) + y.load(at));
}
