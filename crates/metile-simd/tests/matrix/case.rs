//! Factors whose memory ends where their elements end, and the sums that products must give.

use half::{bf16, f16};
use metile_ir::DType;
use metile_ir::dtype::{AffineScale, PackedFormat};
use metile_ir::packed::decode_block;
use metile_simd::Level;
use metile_simd::matrix::{Operand, Scratch, Source, dot};

/// A small generator, the same on every run (Vigna's splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// The levels that this machine has.
pub fn levels() -> Vec<Level> {
    let mut levels = vec![Level::Portable];
    if Level::detect() != Level::Portable {
        levels.push(Level::detect());
    }
    levels
}

/// Bytes in an allocation of exactly their size: a read before or after it is a memory checker's to
/// find.
pub struct Guarded(Box<[u8]>);

impl Guarded {
    pub fn new(bytes: &[u8]) -> Guarded {
        Guarded(bytes.into())
    }
    fn at(&self, byte: isize) -> *const u8 {
        self.0.as_ptr().wrapping_offset(byte)
    }
}

/// A factor in memory and its values, `[rows, k]`.
pub struct Factor {
    pub rows: usize,
    pub k: usize,
    pub values: Vec<f32>,
    /// What a value may be off by for the way its scale is applied: `|scale·q| + |min|`.
    pub magnitudes: Vec<f32>,
    memory: Vec<Guarded>,
    source: Source,
    offset: isize,
}

fn encode(dtype: DType, x: f32) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(x).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    }
}

fn decode(dtype: DType, bytes: &[u8]) -> f32 {
    match dtype {
        DType::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        DType::BF16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        _ => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}

impl Factor {
    /// Random elements at these strides (of rows, of `k`); memory between them is NaN.
    pub fn plain(
        random: &mut Random,
        dtype: DType,
        rows: usize,
        k: usize,
        strides: [isize; 2],
    ) -> Factor {
        let span = [strides[0] * (rows as isize - 1).max(0), strides[1] * (k as isize - 1).max(0)];
        let low: isize = span.iter().map(|s| (*s).min(0)).sum();
        let high: isize = span.iter().map(|s| (*s).max(0)).sum();
        let count = if rows * k == 0 { 0 } else { (high - low + 1) as usize };
        let mut bytes: Vec<u8> = (0..count).flat_map(|_| encode(dtype, f32::NAN)).collect();
        let size = dtype.bytes();
        let place = |i: usize, j: usize| {
            (i as isize * strides[0] + j as isize * strides[1] - low) as usize * size
        };
        for i in 0..rows {
            for j in 0..k {
                let at = place(i, j);
                bytes[at..at + size].copy_from_slice(&encode(dtype, random.unit()));
            }
        }
        let mut values = Vec::with_capacity(rows * k);
        for i in 0..rows {
            for j in 0..k {
                values.push(decode(dtype, &bytes[place(i, j)..]));
            }
        }
        let memory = vec![Guarded::new(&bytes)];
        let base = memory[0].at(-low * size as isize);
        let source = Source::Plain { dtype, base, row_stride: strides[0], k_stride: strides[1] };
        Factor { rows, k, magnitudes: values.clone(), values, memory, source, offset: -low }
    }

    /// The identity, `[k, k]`.
    pub fn identity(k: usize) -> Factor {
        let mut f = Factor::plain(&mut Random(0), DType::F32, k, k, [k as isize, 1]);
        f.values = (0..k * k).map(|at| if at / k == at % k { 1.0 } else { 0.0 }).collect();
        let bytes: Vec<u8> = f.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        f.memory[0].0.copy_from_slice(&bytes);
        f
    }

    /// Random blocks with finite scales, rows `row_stride` blocks apart, beginning at element `first`.
    pub fn packed(
        random: &mut Random,
        format: PackedFormat,
        rows: usize,
        k: usize,
        first: usize,
    ) -> Factor {
        let (elements, sizes) = (format.block_elements(), format.block_bytes());
        let blocks = (first + k).div_ceil(elements);
        let row_stride = blocks + random.below(3);
        let total = if rows == 0 { 0 } else { (rows - 1) * row_stride + blocks };
        let mut parts: Vec<Vec<u8>> = sizes
            .iter()
            .map(|size| (0..total * size).map(|_| random.next() as u8).collect())
            .collect();
        for block in 0..total {
            for (part, at) in scales(format) {
                let at = block * sizes[part] + at;
                let scale = random.unit() * 0.1;
                match format {
                    PackedFormat::Affine(a) => {
                        let bytes = encode(a.scale.dtype(), scale);
                        parts[part][at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                    _ => {
                        parts[part][at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes())
                    }
                }
            }
        }
        let memory: Vec<Guarded> = parts.iter().map(|p| Guarded::new(p)).collect();
        let source = Source::Packed {
            format,
            parts: std::array::from_fn(|i| memory.get(i).map_or(std::ptr::null(), |m| m.at(0))),
            row_stride: row_stride as isize,
            first_k: first,
        };
        let mut factor = Factor {
            rows,
            k,
            values: Vec::new(),
            magnitudes: Vec::new(),
            memory,
            source,
            offset: 0,
        };
        factor.decode_blocks();
        factor
    }

    /// Makes a scale of the second block of `row` the `f16` with these bytes, or an infinity or NaN of
    /// the affine format's own dtype.
    pub fn poison_scale(&mut self, row: usize, half: [u8; 2]) {
        let Source::Packed { format, row_stride, .. } = self.source else { return };
        let block = row * row_stride as usize + 1;
        let (part, at) = scales(format)[0];
        let at = block * format.block_bytes()[part] + at;
        let special = f16::from_le_bytes(half).to_f32();
        let bytes = match format {
            PackedFormat::Affine(a) if a.scale != AffineScale::F16 => {
                encode(a.scale.dtype(), special)
            }
            _ => half.to_vec(),
        };
        self.memory[part].0[at..at + bytes.len()].copy_from_slice(&bytes);
        self.decode_blocks();
    }

    fn decode_blocks(&mut self) {
        let Source::Packed { format, row_stride, first_k, .. } = self.source else { return };
        let (elements, sizes) = (format.block_elements(), format.block_bytes());
        let blocks = (first_k + self.k).div_ceil(elements);
        let mut row_values = vec![0.0; blocks * elements];
        (self.values, self.magnitudes) = (Vec::new(), Vec::new());
        for row in 0..self.rows {
            for block in 0..blocks {
                let at = row * row_stride as usize + block;
                let parts: Vec<&[u8]> = sizes
                    .iter()
                    .zip(&self.memory)
                    .map(|(size, memory)| &memory.0[at * size..(at + 1) * size])
                    .collect();
                let out = &mut row_values[block * elements..(block + 1) * elements];
                decode_block(format, &parts, out).expect("sizes are the format's");
            }
            self.values.extend(&row_values[first_k..first_k + self.k]);
            // A bound of `|scale·q| + |min|`: no value of the block is larger than a few times this.
            for block in row_values.chunks_mut(elements) {
                let peak = block.iter().fold(0.0f32, |p, x| p.max(x.abs()));
                block.fill(4.0 * peak);
            }
            self.magnitudes.extend(&row_values[first_k..first_k + self.k]);
        }
    }

    /// Changes an element of a plain factor.
    pub fn set(&mut self, i: usize, j: usize, x: f32) {
        let Source::Plain { dtype, row_stride, k_stride, .. } = self.source else { return };
        let at = self.offset + i as isize * row_stride + j as isize * k_stride;
        let (at, size) = (at as usize * dtype.bytes(), dtype.bytes());
        self.memory[0].0[at..at + size].copy_from_slice(&encode(dtype, x));
        for r in 0..self.rows {
            for c in 0..self.k {
                let at = self.offset + r as isize * row_stride + c as isize * k_stride;
                self.values[r * self.k + c] =
                    decode(dtype, &self.memory[0].0[at as usize * size..]);
            }
        }
        self.magnitudes.clone_from(&self.values);
    }

    fn operand(&self) -> Operand {
        Operand { source: self.source, valid_rows: self.rows, valid_k: self.k, version: 0 }
    }

    fn at(&self, values: &[f32], i: usize, j: usize) -> f64 {
        if i < self.rows && j < self.k { f64::from(values[i * self.k + j]) } else { 0.0 }
    }
}

/// Array and byte of each scale and min of a block.
fn scales(format: PackedFormat) -> Vec<(usize, usize)> {
    match format {
        PackedFormat::Q4_0 | PackedFormat::Q5_0 | PackedFormat::Q8_0 => vec![(0, 0)],
        PackedFormat::Q4_1 | PackedFormat::Q5_1 | PackedFormat::Q4K | PackedFormat::Q5K => {
            vec![(0, 0), (0, 2)]
        }
        PackedFormat::Q6K => vec![(0, 208)],
        PackedFormat::Affine(_) => vec![(1, 0), (2, 0)],
    }
}

/// `start + a · bᵀ`; rows of `start` and the result begin `stride` apart.
pub fn run(
    level: Level,
    shape: [usize; 3],
    a: &Factor,
    b: &Factor,
    start: &[f32],
    stride: usize,
) -> Vec<f32> {
    let mut acc = start.to_vec();
    run_in(level, shape, a, b, &mut acc, stride, &mut Scratch::new());
    acc
}

/// As [`run`], in a scratch that may have served other products.
pub fn run_in(
    level: Level,
    [m, n, k]: [usize; 3],
    a: &Factor,
    b: &Factor,
    acc: &mut [f32],
    stride: usize,
    scratch: &mut Scratch,
) {
    assert!(m == 0 || (m - 1) * stride + n <= acc.len());
    // SAFETY: valid elements are in the factors' memory, results in `acc`; the level is the machine's.
    unsafe {
        dot(level, m, n, k, &a.operand(), &b.operand(), acc.as_mut_ptr(), stride, scratch);
    }
}

/// Compares the product with sums in `f64`, at every level, into rows that are apart.
pub fn check(random: &mut Random, [m, n, k]: [usize; 3], a: &Factor, b: &Factor) {
    let stride = n + random.below(5);
    let start: Vec<f32> = (0..(m * stride).max(1)).map(|_| random.unit()).collect();
    let mut want = vec![(0.0, 0.0); m * n];
    for i in 0..m {
        for j in 0..n {
            let (mut sum, mut size) = (f64::from(start[i * stride + j]), 1.0);
            for c in 0..k {
                sum += a.at(&a.values, i, c) * b.at(&b.values, j, c);
                size += (a.at(&a.magnitudes, i, c) * b.at(&b.magnitudes, j, c)).abs();
            }
            want[i * n + j] = (sum, size * (k as f64).sqrt().max(4.0) * f64::from(f32::EPSILON));
        }
    }
    for level in levels() {
        let got = run(level, [m, n, k], a, b, &start, stride);
        for i in 0..m {
            for j in 0..stride {
                let got = got[i * stride + j];
                if j >= n {
                    assert_eq!(got, start[i * stride + j], "{level:?} wrote beyond row {i}");
                    continue;
                }
                let (sum, bound) = want[i * n + j];
                let same = match () {
                    () if sum.is_nan() => got.is_nan(),
                    () if sum.is_infinite() => f64::from(got) == sum,
                    () => (f64::from(got) - sum).abs() <= bound,
                };
                assert!(
                    same,
                    "{level:?} [{m}, {n}, {k}] at [{i}, {j}]: {got}, not {sum} within {bound:e};\n{:?} valid {}x{}\n{:?} valid {}x{}",
                    a.source, a.rows, a.k, b.source, b.rows, b.k,
                );
            }
        }
    }
}
