fn control<const N: usize>(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>, limit: i64, gain: f32) {
    let mut i = 0;
    let mut state = (zeros::<f32, 1>([N]), 0.0);
    while i < limit && limit > 0 {
        let v = x.load(i * N + arange(N));
        if i % 2 == 0 {
            state.0 += v;
        } else {
            state.0 = state.0 - v;
            state.1 += 1.0;
        }
        for k in 0..3 {
            if k == 1 {
                state.1 += gain;
            }
        }
        for j in 0..limit {
            state.1 += j as f32;
        }
        i += 1;
    }
    let bonus = if state.1 > 2.0 { state.1 } else { scalar(-1.0f32) };
    out.store(arange(N), gelu(state.0, 0.5) + bonus);
    assert!(i <= limit, "i stays below");
    print!("i = {}, sum = {}", i, state.0);
}
