//! Both levels of the vector types agree with scalar arithmetic.

use half::{bf16, f16};
use metile_simd::Level;
use metile_simd::lanes::{self, LANES, Lanes, Words, Work};

fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Portable];
    if Level::detect() != Level::Portable {
        levels.push(Level::detect());
    }
    levels
}

struct WidenHalves;
impl Work for WidenHalves {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for first in (0..=u16::MAX).step_by(LANES) {
            let halves: [u16; LANES] = std::array::from_fn(|i| first + i as u16);
            // SAFETY: eight halves each; the level is the machine's.
            let (f, b) = unsafe {
                (L::load_f16(halves.as_ptr()).to_array(), L::load_bf16(halves.as_ptr()).to_array())
            };
            for i in 0..LANES {
                let want = f16::from_bits(halves[i]).to_f32();
                assert!(f[i].to_bits() == want.to_bits() || f[i].is_nan() && want.is_nan());
                let want = bf16::from_bits(halves[i]).to_f32();
                assert!(b[i].to_bits() == want.to_bits() || b[i].is_nan() && want.is_nan());
            }
        }
    }
}

#[test]
fn halves_widen_exactly() {
    for level in levels() {
        // SAFETY: a level of this machine.
        unsafe { lanes::run(level, WidenHalves) };
    }
}

struct Shapes;
impl Work for Shapes {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let grid: [[f32; 8]; 8] =
            std::array::from_fn(|i| std::array::from_fn(|j| (i * 8 + j) as f32));
        // SAFETY: whole arrays; the level is the machine's.
        unsafe {
            let rows: [L; 8] = std::array::from_fn(|i| L::from_array(grid[i]));
            for (i, column) in L::transpose(rows).into_iter().enumerate() {
                assert_eq!(column.to_array(), std::array::from_fn(|j| grid[j][i]));
            }
            let sums = L::sums(rows).to_array();
            for i in 0..8 {
                assert_eq!(sums[i], grid[i].iter().sum::<f32>());
                assert_eq!(rows[i].sum(), sums[i]);
            }
            for count in 0..8 {
                let mut out = [-1.0f32; 8];
                L::load_first(grid[1].as_ptr(), count).store(out.as_mut_ptr());
                assert_eq!(out, std::array::from_fn(|i| if i < count { grid[1][i] } else { 0.0 }));
                let mut out = [-1.0f32; 8];
                rows[1].store_first(out.as_mut_ptr(), count);
                assert_eq!(out, std::array::from_fn(|i| if i < count { grid[1][i] } else { -1.0 }));
            }
            let (two, three) = (L::splat(2.0), L::splat(3.0));
            assert_eq!(two.mul_add(three, L::splat(1.0)).to_array(), [7.0; 8]);
            assert_eq!(two.min(three).to_array(), [2.0; 8]);
            assert_eq!(two.max(three).to_array(), [3.0; 8]);
            assert_eq!(two.sub(three).to_array(), [-1.0; 8]);
            assert_eq!(two.div(three).to_array(), [2.0 / 3.0; 8]);
            assert!(three.min(L::splat(f32::NAN)).to_array()[0].is_nan());
            assert_eq!(L::splat(f32::NAN).max(three).to_array(), [3.0; 8]);
        }
    }
}

#[test]
fn vectors_move_and_add() {
    for level in levels() {
        // SAFETY: a level of this machine.
        unsafe { lanes::run(level, Shapes) };
    }
}

struct Bytes;
impl Work for Bytes {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let x: [u8; 32] = std::array::from_fn(|i| (i * 37 + 11) as u8);
        let y: [u8; 32] = std::array::from_fn(|i| (i * 91 + 128) as u8);
        // SAFETY: whole arrays; the level is the machine's.
        unsafe {
            let bytes = |w: L::Words| {
                let mut out = [0u8; 32];
                w.store(out.as_mut_ptr());
                out
            };
            let words = |w: L::Words| {
                let b = bytes(w);
                std::array::from_fn::<i32, 8, _>(|i| {
                    i32::from_le_bytes([b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]])
                })
            };
            let (vx, vy) = (L::Words::load(x.as_ptr()), L::Words::load(y.as_ptr()));
            assert_eq!(bytes(L::Words::load_twice(x.as_ptr())), std::array::from_fn(|i| x[i % 16]));
            assert_eq!(
                bytes(vx.interleave_halves()),
                std::array::from_fn(|i| x[i / 2 + i % 2 * 16])
            );
            for v in 0..4 {
                let unsigned = std::array::from_fn(|i| f32::from(x[8 * v + i]));
                assert_eq!(vx.widen_u8()[v].to_array(), unsigned);
                let signed = std::array::from_fn(|i| f32::from(x[8 * v + i] as i8));
                assert_eq!(vx.widen_i8()[v].to_array(), signed);
            }
            let low: [u8; 32] = x.map(|b| b & 127);
            let small = L::Words::load(low.as_ptr());
            let exact: [i32; 8] = std::array::from_fn(|i| {
                (4 * i..4 * i + 4).map(|p| i32::from(low[p]) * i32::from(y[p] as i8)).sum()
            });
            assert_eq!(words(small.dot_u7_i8(vy)), exact);
            let wide = y.map(|b| i16::from(b as i8));
            let total: i32 = (0..32).map(|p| i32::from(x[p]) * i32::from(wide[p])).sum();
            let sums = L::Words::dot_u8_i16(x.as_ptr(), wide.as_ptr());
            assert_eq!(words(sums).iter().sum::<i32>(), total);
            let total: i32 = (0..32).map(|p| i32::from(x[p] as i8) * i32::from(wide[p])).sum();
            let sums = L::Words::dot_i8_i16(x.as_ptr(), wide.as_ptr());
            assert_eq!(words(sums).iter().sum::<i32>(), total);
            let unsigned = std::array::from_fn(|i| f32::from(x[i]));
            assert_eq!(L::load_u8(x.as_ptr()).to_array(), unsigned);
            let signed = std::array::from_fn(|i| f32::from(x[i] as i8));
            assert_eq!(L::load_i8(x.as_ptr()).to_array(), signed);
            let two = [1.5f32, -2.0];
            let [a, b] = two;
            assert_eq!(L::splat_two(two.as_ptr()).to_array(), [a, a, a, a, b, b, b, b]);
            let halves = [0x3c00u16, 0x0001, 0xfc00, 0x7bff, 0x8000, 0xc000, 0x0400, 0x5640];
            let pairs = std::array::from_fn(|i| {
                u32::from(halves[2 * i]) | u32::from(halves[2 * i + 1]) << 16
            });
            let values = halves.map(|h| f16::from_bits(h).to_f32());
            assert_eq!(L::from_f16(pairs).to_array(), values);
            assert_eq!(L::splat_f16(0xfbff).to_array(), [-65504.0; 8]);
            let [low, high] = L::splat_f16_pair(0x3c00_c000);
            assert_eq!((low.to_array(), high.to_array()), ([-2.0; 8], [1.0; 8]));
            let counts = L::Words::from_array([0, 1, 2, 3, 4, 8, 16, 31]);
            let ones = L::Words::splat(u32::MAX);
            let shifted = [0, 1, 2, 3, 4, 8, 16, 31].map(|n| (u32::MAX >> n) as i32);
            assert_eq!(words(ones.shr_each(counts)), shifted);
            assert_eq!(words(ones.shl::<5>().shr::<7>()), [(u32::MAX << 5 >> 7) as i32; 8]);
            assert_eq!(words(ones.add(L::Words::splat(3))), [2; 8]);
            assert_eq!(ones.to_floats().to_array(), [-1.0; 8]);
            assert_eq!(bytes(vx.equal_bytes(vx)), [255; 32]);
            assert_eq!(words(counts.equal(L::Words::splat(2)))[2], -1);
            assert_eq!(bytes(vx.and(vy).or(vx)), x);
            let table: [u8; 32] = std::array::from_fn(|i| 15 - (i % 16) as u8);
            let reversed = bytes(vx.shuffle_halves(L::Words::load(table.as_ptr())));
            assert_eq!(reversed, std::array::from_fn(|i| x[i / 16 * 16 + 15 - i % 16]));
        }
    }
}

#[test]
fn bytes_widen_and_multiply() {
    for level in levels() {
        // SAFETY: a level of this machine.
        unsafe { lanes::run(level, Bytes) };
    }
}
