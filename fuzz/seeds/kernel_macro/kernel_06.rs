fn argmax<const BLOCK: usize>(
    x: &Tensor<f32, 1>,
    best: &mut Tensor<f32, 1>,
    at: &mut Tensor<i64, 1>,
    out: &mut Tensor<i64, 1>,
) {
    let me = program_id(0);
    let mut peak = f32::NEG_INFINITY;
    let mut index = 0;
    for start in step_range(me * BLOCK, x.dim(0), num_programs(0) * BLOCK) {
        let v = x.load_or(start + arange(BLOCK), f32::NEG_INFINITY);
        let found = v.max();
        if found > peak {
            peak = found;
            index = start + v.argmax();
        }
    }
    best.store(me, peak);
    at.store(me, index);
    grid_barrier();
    if me == 0 {
        let all = best.load_or(arange(64), f32::NEG_INFINITY);
        // The lowest index among equals, whichever program found it.
        let candidates =
            select(all == all.max(), at.load_or(arange(64), i64::MAX), scalar(i64::MAX));
        out.store(0, candidates.min());
    }
}
