fn moves(out: &mut Tensor<i64, 2>) {
    let a = arange(6).reshape([2, 3]);
    let lane = arange(12);
    out.store((0, lane), cat([a, a + 6], 0).reshape([12]));
    out.store((1, lane), cat([a, a + 6], 1).reshape([12]));
    out.store((2, lane), interleave(arange(6), arange(6) + 10));
    out.store((3, lane), join(a, a * 10).reshape([12]));
    out.store((4, arange(6)), a.t().reshape([6]));
    out.store((5, arange(6)), arange(12).slice_step(0, 1..12, 2));
    let [low, high] = arange(12).split(0);
    out.store((6, arange(6)), low * high);
    out.store((7, arange(6)), a.gather(1, (a + 1) % 4).reshape([6]));
    out.store((8, lane), (arange(12).scan_sum(0)));
    out.store((9, arange(3)), a.sum_along(0));
    out.store((9, arange(2) + 3), a.max_along(1));
    out.store((9, arange(2) + 5), a.argmax_along(1));
    out.store((10, arange(6)), a.broadcast_to([2, 2, 3]).slice(0, 1..2).squeeze(0).reshape([6]));
    out.store((10, 6), ((a % 2 == 0).any_along(1).all()).to::<i64>());
}
