//! Products of every layout, shape and packing against sums in `f64`.

#[path = "matrix/case.rs"]
mod case;

use case::{Factor, Random, check, levels, run};
use metile_ir::DType;
use metile_ir::dtype::PackedFormat;
use metile_simd::matrix::{Bytes, Scratch, dot_i8};

const PLAIN: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

#[test]
fn contiguous_rows_of_every_dtype() {
    let mut random = Random(1);
    for a in PLAIN {
        for b in PLAIN {
            for [m, n, k] in [
                [0, 3, 4],
                [3, 0, 4],
                [3, 4, 0],
                [1, 1, 1],
                [1, 17, 40],
                [2, 9, 64],
                [3, 33, 7],
                [4, 8, 128],
                [5, 21, 70],
                [6, 6, 6],
                [7, 30, 100],
                [11, 13, 260],
                [12, 12, 12],
                [13, 40, 300],
                [40, 5, 33],
                [70, 50, 520],
                [12, 16, 8],
                [18, 32, 1],
            ] {
                let x = Factor::plain(&mut random, a, m, k, [k as isize, 1]);
                let w = Factor::plain(&mut random, b, n, k, [k as isize, 1]);
                check(&mut random, [m, n, k], &x, &w);
            }
        }
    }
}

#[test]
fn strides_of_any_sign() {
    let mut random = Random(2);
    for [m, n, k] in [[3, 20, 37], [20, 3, 37], [25, 30, 61], [1, 70, 20], [2, 70, 20], [9, 70, 20]]
    {
        for strides in [
            [1, 77],
            [77, 1],
            [-77, 1],
            [1, -77],
            [-1, 77],
            [5, 211],
            [0, 1],
            [1, 0],
            [0, 0],
            [-211, -2],
        ] {
            for dtype in PLAIN {
                let x = Factor::plain(&mut random, dtype, m, k, strides);
                let w = Factor::plain(&mut random, dtype, n, k, [k as isize + 3, 1]);
                check(&mut random, [m, n, k], &x, &w);
                let x = Factor::plain(&mut random, dtype, m, k, [k as isize + 3, 1]);
                let w = Factor::plain(&mut random, dtype, n, k, strides);
                check(&mut random, [m, n, k], &x, &w);
            }
        }
    }
}

#[test]
fn random_shapes_and_extents() {
    let mut random = Random(3);
    let formats = PackedFormat::all();
    for _ in 0..1500 {
        let [m, n] =
            [0, 1].map(|_| [1, 4, 14, 40][random.below(4)] + random.below(30) * random.below(2));
        let k = [1, 32, 64, 256, 600][random.below(5)] + random.below(40) * random.below(2);
        let mut factor = |rows: usize| {
            let valid = [rows, random.below(rows + 2)][random.below(2)];
            let valid_k = [k, random.below(k + 2)][usize::from(random.below(4) == 0)];
            if random.below(2) == 0 {
                let dtype = PLAIN[random.below(3)];
                let along = (valid_k + random.below(9)) as isize;
                let across = (valid + random.below(9)) as isize;
                let strides =
                    [[along, 1], [1, across], [-along, 1], [2, 2 * across]][random.below(4)];
                Factor::plain(&mut random, dtype, valid, valid_k, strides)
            } else {
                let format = formats[random.below(formats.len())];
                let first = [0, 32, 256, random.below(300)][random.below(4)];
                Factor::packed(&mut random, format, valid, valid_k, first)
            }
        };
        let (a, b) = (factor(m), factor(n));
        check(&mut random, [m, n, k], &a, &b);
    }
}

#[test]
fn every_packing_by_few_and_many_rows() {
    let mut random = Random(4);
    for format in PackedFormat::all() {
        for first in [0, 32, 256, 5] {
            for [m, n, k] in [[1, 5, 256], [2, 7, 512], [4, 3, 300], [9, 12, 96], [20, 25, 288]] {
                let w = Factor::packed(&mut random, format, n, k, first);
                let x = Factor::plain(&mut random, DType::F32, m, k, [k as isize, 1]);
                check(&mut random, [m, n, k], &x, &w);
                check(&mut random, [n, m, k], &w, &x);
                let x = Factor::packed(&mut random, PackedFormat::Q8_0, m, k, first / 32 * 32);
                check(&mut random, [m, n, k], &x, &w);
                check(&mut random, [n, m, k], &w, &x);
            }
        }
    }
}

#[test]
fn packed_rows_meet_the_identity_as_they_decode() {
    // By many rows weights are decoded, and every sum has one product that is not zero.
    let mut random = Random(5);
    let k = 256;
    let x = Factor::identity(k);
    for format in PackedFormat::all() {
        let w = Factor::packed(&mut random, format, 20, k, 0);
        for level in levels() {
            let got = run(level, [k, 20, k], &x, &w, &vec![0.0; k * 20], 20);
            for i in 0..k {
                for j in 0..20 {
                    assert_eq!(got[i * 20 + j], w.values[j * k + i], "{format} [{j}, {i}]");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_spreads_by_the_rules() {
    let mut random = Random(6);
    for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for [m, n, k] in [[1, 9, 40], [3, 9, 40], [5, 30, 300], [30, 26, 300], [26, 4, 64]] {
            for hidden in [0, 1, 2] {
                for strides in [[k as isize, 1], [1, 31], [2, 80]] {
                    let rows = |all: usize| all - hidden.min(all - 1);
                    let mut a = Factor::plain(&mut random, DType::F32, rows(m), k, [k as isize, 1]);
                    let mut b =
                        Factor::plain(&mut random, DType::F16, rows(n), k - hidden, strides);
                    let (i, j) = (random.below(b.rows), random.below(k - hidden));
                    b.set(i, j, special);
                    check(&mut random, [m, n, k], &a, &b);
                    let (i, j) = (random.below(a.rows), random.below(k));
                    a.set(i, j, special);
                    check(&mut random, [m, n, k], &a, &b);
                    // A zero on the other side of it, and the element that only the other side lacks.
                    a.set(i, k - 1, f32::NEG_INFINITY);
                    b.set(0, j.min(k - hidden - 1), 0.0);
                    check(&mut random, [m, n, k], &a, &b);
                }
            }
        }
    }
}

#[test]
fn packed_scales_that_are_not_finite_follow_the_decoded_values() {
    let mut random = Random(7);
    for format in PackedFormat::all() {
        for pattern in [[0x00, 0x7c], [0x01, 0x7e]] {
            let mut w = Factor::packed(&mut random, format, 7, 512, 0);
            w.poison_scale(3, pattern);
            for m in [1, 3, 16] {
                let x = Factor::plain(&mut random, DType::F32, m, 512, [512, 1]);
                check(&mut random, [m + 2, 9, 512], &x, &w);
                let x = Factor::packed(&mut random, PackedFormat::Q8_0, m, 512, 0);
                check(&mut random, [m, 7, 512], &x, &w);
            }
        }
        let w = Factor::packed(&mut random, format, 7, 512, 0);
        let mut x = Factor::plain(&mut random, DType::F32, 2, 512, [512, 1]);
        x.set(1, 77, f32::INFINITY);
        check(&mut random, [2, 7, 512], &x, &w);
    }
}

#[test]
fn activations_near_the_smallest_numbers_keep_their_bits() {
    let mut random = Random(11);
    for format in PackedFormat::all() {
        let mut w = Factor::packed(&mut random, format, 5, 96, 0);
        let mut x = Factor::plain(&mut random, DType::F32, 2, 96, [96, 1]);
        for (i, value) in [(0, 1e-30), (1, -3e-35), (40, f32::MIN_POSITIVE), (95, 1e-41)] {
            x.set(0, i, value);
            x.set(1, i, 1e-33);
        }
        check(&mut random, [2, 5, 96], &x, &w);
        // Nothing but tiny elements, onto zeros: the result is tiny, and still as exact.
        for i in 0..96 {
            x.set(0, i, 1e-36 * (i as f32 - 40.0));
        }
        for level in levels() {
            let got = run(level, [1, 5, 96], &x, &w, &[0.0; 5], 5);
            for j in 0..5 {
                let products: Vec<f64> = (0..96)
                    .map(|c| f64::from(x.values[c]) * f64::from(w.values[j * 96 + c]))
                    .collect();
                let (sum, size) =
                    products.iter().fold((0.0, 0.0), |(s, z), p| (s + p, z + f64::abs(*p)));
                assert!((f64::from(got[j]) - sum).abs() <= size * 1e-5 + 2e-43, "{format}");
            }
        }
        w.poison_scale(0, [0, 0]);
        check(&mut random, [2, 5, 96], &x, &w);
    }
}

#[test]
fn wide_and_long_matrices_cross_every_block() {
    let mut random = Random(12);
    for dtype in PLAIN {
        for m in [1, 2, 3, 7, 13, 37] {
            for [n, k] in [[1100, 70], [300, 35], [30, 1100], [13, 2050], [700, 9]] {
                let x = Factor::plain(&mut random, DType::F32, m, k, [k as isize, 1]);
                let w = Factor::plain(&mut random, dtype, n, k, [1, n as isize]);
                check(&mut random, [m, n, k], &x, &w);
                let w = Factor::plain(&mut random, dtype, n, k, [k as isize + 1, 1]);
                check(&mut random, [m + 1, n + 1, k], &x, &w);
            }
        }
    }
    for format in PackedFormat::all() {
        for m in [1, 2, 4, 7, 9, 14] {
            let w = Factor::packed(&mut random, format, 15, 2400, 256);
            let x = Factor::plain(&mut random, DType::F32, m, 2400, [2400, 1]);
            check(&mut random, [m, 15, 2400], &x, &w);
            let x = Factor::packed(&mut random, PackedFormat::Q8_0, m, 2400, 64);
            check(&mut random, [m + 1, 16, 2400], &x, &w);
        }
    }
}

#[test]
fn panels_of_several_blocks_on_both_sides() {
    let mut random = Random(13);
    let x = Factor::plain(&mut random, DType::F32, 401, 300, [300, 1]);
    let w = Factor::plain(&mut random, DType::BF16, 2100, 300, [301, 1]);
    check(&mut random, [402, 2101, 300], &x, &w);
}

#[test]
fn repeated_calls_give_the_same_bits() {
    let mut random = Random(8);
    for m in [1, 5, 40] {
        let x = Factor::plain(&mut random, DType::F32, m, 300, [300, 1]);
        let w = Factor::packed(&mut random, PackedFormat::Q4_1, 50, 300, 0);
        for level in levels() {
            let first = run(level, [m, 50, 300], &x, &w, &vec![0.5; m * 50], 50);
            let again = run(level, [m, 50, 300], &x, &w, &vec![0.5; m * 50], 50);
            assert_eq!(first, again);
        }
    }
}

#[test]
fn bytes_multiply_exactly_and_wrap() {
    let mut random = Random(9);
    for _ in 0..300 {
        let [m, n] = [random.below(9), random.below(9)];
        let k = random.below(600);
        let mut factor = |rows: usize| {
            let strides = [[k as isize, 1], [1, rows as isize], [-(k as isize) - 2, 1], [0, 1]]
                [random.below(4)];
            let valid = [random.below(rows + 1), random.below(k + 1)];
            let span: [isize; 2] =
                std::array::from_fn(|d| strides[d] * (valid[d] as isize - 1).max(0));
            let low = span.iter().map(|s| (*s).min(0)).sum::<isize>();
            let high = span.iter().map(|s| (*s).max(0)).sum::<isize>();
            let memory: Vec<i8> = (low..=high).map(|_| random.below(256) as u8 as i8).collect();
            (memory, strides, valid, -low)
        };
        let (a, b) = (factor(m), factor(n));
        let bytes = |f: &(Vec<i8>, [isize; 2], [usize; 2], isize)| Bytes {
            base: f.0.as_ptr().wrapping_offset(f.3),
            row_stride: f.1[0],
            k_stride: f.1[1],
            valid_rows: f.2[0],
            valid_k: f.2[1],
        };
        let at = |f: &(Vec<i8>, [isize; 2], [usize; 2], isize), r: usize, c: usize| {
            if r >= f.2[0] || c >= f.2[1] {
                return 0;
            }
            i32::from(f.0[(f.3 + r as isize * f.1[0] + c as isize * f.1[1]) as usize])
        };
        let stride = n + random.below(3);
        let start: Vec<i32> =
            (0..m * stride + 1).map(|_| i32::MAX - random.below(3) as i32).collect();
        let mut acc = start.clone();
        // SAFETY: valid elements lie in the vectors, `acc` has the results.
        unsafe { dot_i8(m, n, k, &bytes(&a), &bytes(&b), acc.as_mut_ptr(), stride) };
        for i in 0..m {
            for j in 0..stride {
                let sum = (0..k).fold(0i32, |s, c| s.wrapping_add(at(&a, i, c) * at(&b, j, c)));
                let want = if j < n {
                    start[i * stride + j].wrapping_add(sum)
                } else {
                    start[i * stride + j]
                };
                assert_eq!(acc[i * stride + j], want);
            }
        }
    }
}

#[test]
fn a_scratch_serves_products_of_all_sizes() {
    let mut random = Random(10);
    let mut scratch = Scratch::new();
    for [m, n, k] in [[40, 40, 300], [1, 9, 33], [70, 20, 40], [2, 100, 64]] {
        let a = Factor::plain(&mut random, DType::F32, m, k, [k as isize, 1]);
        let b = Factor::plain(&mut random, DType::F32, n, k, [k as isize, 1]);
        let mut reused = vec![0.0; m * n];
        let level = metile_simd::Level::detect();
        case::run_in(level, [m, n, k], &a, &b, &mut reused, n, &mut scratch);
        assert_eq!(reused, run(level, [m, n, k], &a, &b, &vec![0.0; m * n], n));
    }
}
