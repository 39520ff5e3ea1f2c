fn project<A: Float, W: Weight, const BM: usize, const BN: usize, const BK: usize>(
    a: &Tensor<A, 2>,
    b: &Tensor<W, 2>,
    out: &mut Tensor<f32, 2>,
) {
    let (row, col) = (program_id(0) * BM, program_id(1) * BN);
    let mut acc = zeros::<f32, 2>([BM, BN]);
    for k in tiles(a.dim(1), BK) {
        let left = a.load_tile((row, k), [BM, BK]);
        let right = b.load_tile((col, k), [BN, BK]).to_f32();
        acc = dot_add(left, right.t(), acc);
    }
    out.store_tile((row, col), acc);
}
