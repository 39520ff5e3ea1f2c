//! Every super-instruction against its steps, one by one.

use metile_ir::arith;
use metile_ir::tile::{BinaryOp, ReduceOp, UnaryOp};
use metile_simd::chain::{Chain, Second, chain};
use metile_simd::elementwise::Operand;
use metile_simd::{Level, reduce};

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn operand(run: &[f32]) -> Operand {
    Operand { first: run.as_ptr().cast(), one: run.len() == 1 }
}

fn at(run: &[f32], n: usize) -> f32 {
    if run.len() == 1 { run[0] } else { run[n] }
}

fn expected(c: &Chain, a: &[f32], b: &[f32], third: &[f32]) -> Vec<f32> {
    let first = arith::float::binary(c.first).expect("defined on f32");
    let exp = arith::float::unary(UnaryOp::Exp).expect("defined on f32");
    (0..a.len())
        .map(|n| {
            let x = first(a[n], at(b, n));
            match c.second {
                Second::None => x,
                Second::Exp => exp(x),
                Second::Square => x * x,
                Second::Mul => x * at(third, n),
                Second::Add => x + at(third, n),
            }
        })
        .collect()
}

fn check(level: Level, c: &Chain, a: &[f32], b: &[f32], third: &[f32]) {
    let want = expected(c, a, b, third);
    // Guards on both sides: nothing is written beyond the run.
    let mut out = vec![f32::MAX; a.len() + 2];
    // SAFETY: the runs have as many elements as `a`, or one; the result is inside the guards.
    let got = unsafe {
        let to = out.as_mut_ptr().add(1).cast();
        chain(level, c, a.as_ptr().cast(), operand(b), operand(third), to, a.len())
    };
    assert_eq!((out[0], out[a.len() + 1]), (f32::MAX, f32::MAX), "{c:?}");
    let out = &out[1..=a.len()];
    let close =
        |x: f32, y: f32| (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= 3e-7 * y.abs();
    for (n, (&x, &y)) in out.iter().zip(&want).enumerate() {
        assert!(close(x, y), "{c:?} {level:?}: element {n} of {} is {x}, not {y}", a.len());
    }
    match c.reduce {
        None => {}
        Some(ReduceOp::Max) => {
            let max = out.iter().copied().reduce(arith::float::max).expect("not empty");
            assert!(
                got.to_bits() == max.to_bits() || (got.is_nan() && max.is_nan()),
                "{c:?}: {got}"
            );
        }
        Some(_) => {
            // SAFETY: as above; a sum needs no place for what it sums.
            let alone = unsafe {
                let none = std::ptr::null_mut();
                chain(level, c, a.as_ptr().cast(), operand(b), operand(third), none, a.len())
            };
            assert!(alone.to_bits() == got.to_bits() || (alone.is_nan() && got.is_nan()), "{c:?}");
            let sum: f64 = out.iter().map(|&x| f64::from(x)).sum();
            let size: f64 = out.iter().map(|&x| f64::from(x).abs()).sum();
            let fits = (f64::from(got) - sum).abs() <= 1e-6 * size;
            assert!(
                fits || (got.is_nan() && sum.is_nan()) || f64::from(got) == sum,
                "{c:?}: {got}, not {sum}"
            );
        }
    }
}

#[test]
fn chains_do_what_their_steps_do() {
    let levels = [Level::Portable, Level::detect()];
    let firsts = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div];
    let seconds = [Second::None, Second::Exp, Second::Square, Second::Mul, Second::Add];
    for level in levels {
        for first in firsts {
            for second in seconds {
                for reduce in [None, Some(ReduceOp::Sum), Some(ReduceOp::Max)] {
                    let c = Chain { first, second, reduce };
                    assert!(c.exists());
                    for n in [1, 7, 8, 9, 31, 32, 33, 100, 1024] {
                        let (a, b, third) = (values(n, 1), values(n, 2), values(n, 3));
                        check(level, &c, &a, &b, &third);
                        check(level, &c, &a, &b[..1], &third);
                        check(level, &c, &a, &b, &third[..1]);
                        check(level, &c, &a, &b[..1], &third[..1]);
                    }
                    let mut odd = values(40, 4);
                    odd[3] = f32::NAN;
                    odd[17] = f32::INFINITY;
                    check(level, &c, &odd, &[1.0], &[0.5]);
                    check(level, &c, &[-0.0, 0.0, -0.0], &[1.0], &[0.0]);
                }
            }
        }
    }
}

#[test]
fn reductions_keep_nan_and_the_sign_of_zero() {
    for level in [Level::Portable, Level::detect()] {
        for n in [1usize, 5, 8, 33, 64, 100] {
            for at in 0..n {
                let mut run = values(n, 9);
                run[at] = f32::NAN;
                assert!(reduce::max(level, &run).is_nan() && reduce::min(level, &run).is_nan());
                let mut run = vec![-0.0f32; n];
                assert_eq!(reduce::sum(level, &run).to_bits(), (-0.0f32).to_bits());
                run[at] = 0.0;
                assert_eq!(reduce::max(level, &run).to_bits(), 0);
                if n > 1 {
                    assert_eq!(reduce::min(level, &run).to_bits(), (-0.0f32).to_bits());
                }
            }
        }
    }
}
