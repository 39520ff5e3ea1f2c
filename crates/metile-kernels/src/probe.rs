//! What a device does at all, measured by kernels in the language: bytes read, bytes copied, multiplications and additions.

use metile::KernelCall;
use metile::prelude::*;
use std::time::Duration;

/// out[p] = the sum of what program p reads. `x`: [n]; program p of all P reads tiles p, p + P, … of BLOCK elements.
#[kernel]
pub fn read_all<const BLOCK: usize>(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let mut total = zeros::<f32, 1>([BLOCK]);
    let step = num_programs(0) * BLOCK;
    for start in step_range(program_id(0) * BLOCK, x.dim(0), step) {
        total = total + x.load(start + arange(BLOCK));
    }
    out.store(program_id(0), total.sum());
}

/// out = x. `x`, `out`: [n]; one program per BLOCK elements.
#[kernel]
pub fn copy_all<const BLOCK: usize>(x: &Tensor<f32, 1>, out: &mut Tensor<f32, 1>) {
    let at = program_id(0) * BLOCK + arange(BLOCK);
    out.store(at, x.load(at));
}

/// Eight chains of `rounds` fused multiplications and additions for each of BLOCK elements. `out`: [programs · BLOCK].
#[kernel]
pub fn multiply_all<const BLOCK: usize>(out: &mut Tensor<f32, 1>, factor: f32, rounds: i64) {
    let at = program_id(0) * BLOCK + arange(BLOCK);
    let first = at.to_f32() * 1e-6;
    let mut a = first;
    let mut b = first + 1.0;
    let mut c = first + 2.0;
    let mut d = first + 3.0;
    let mut e = first + 4.0;
    let mut f = first + 5.0;
    let mut g = first + 6.0;
    let mut h = first + 7.0;
    let by = full([BLOCK], factor);
    for _ in 0..rounds {
        a = fma(a, by, by);
        b = fma(b, by, by);
        c = fma(c, by, by);
        d = fma(d, by, by);
        e = fma(e, by, by);
        f = fma(f, by, by);
        g = fma(g, by, by);
        h = fma(h, by, by);
    }
    out.store(at, (a + b) + (c + d) + ((e + f) + (g + h)));
}

/// Rates of a device.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Bytes read from memory a second.
    pub read: f64,
    /// Bytes copied a second, read and written counted.
    pub copy: f64,
    /// Strict `f32` operations a second, a fused multiplication and addition counted as two.
    pub multiply: f64,
}

/// How often each rate is measured; the best counts.
const ROUNDS: usize = 7;
/// Elements of a program's tile.
const BLOCK: usize = 2048;
/// Multiplications and additions of an element, in each of eight chains.
const CHAIN: i64 = 4096;

/// Measures `device`, on tensors of `bytes`, by its own clock where it has one. `programs` is how many programs keep it busy.
///
/// # Errors
/// If the device has no room for two such tensors, or fails.
pub fn probe(device: &Device, bytes: usize, programs: usize) -> Result<Rates, Error> {
    let n = (bytes / 4).next_multiple_of(BLOCK);
    let x = Tensor::<f32, 1>::zeros(device, [n])?;
    let mut y = Tensor::<f32, 1>::zeros(device, [n])?;
    let mut sums = Tensor::<f32, 1>::zeros(device, [programs])?;
    let read = best(device, read_all::<BLOCK>(&x, &mut sums).grid(programs))?;
    let copy = best(device, copy_all::<BLOCK>(&x, &mut y).grid(n / BLOCK))?;
    let mut out = Tensor::<f32, 1>::zeros(device, [programs * BLOCK])?;
    let multiply = best(device, multiply_all::<BLOCK>(&mut out, 0.5, CHAIN).grid(programs))?;
    let operations = 2.0 * 8.0 * CHAIN as f64 * (programs * BLOCK) as f64;
    Ok(Rates {
        read: 4.0 * n as f64 / read.as_secs_f64(),
        copy: 8.0 * n as f64 / copy.as_secs_f64(),
        multiply: operations / multiply.as_secs_f64(),
    })
}

/// The least time of a launch, after one that does not count.
fn best(device: &Device, call: KernelCall<'_>) -> Result<Duration, Error> {
    let mut list = CommandList::new(device);
    list.record(call)?;
    list.replay()?;
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        least = least.min(list.replay_for_time()?);
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_do_the_work_that_is_counted() {
        let device = Device::cpu();
        let values: Vec<f32> = (0..5000).map(|n| (n % 7) as f32).collect();
        let x = Tensor::from_slice(&device, [5000], &values).unwrap();
        let mut sums = Tensor::<f32, 1>::zeros(&device, [3]).unwrap();
        read_all::<64>(&x, &mut sums).grid(3).prepare(&device).unwrap().launch().unwrap();
        assert_eq!(sums.to_vec().unwrap().iter().sum::<f32>(), values.iter().sum::<f32>());
        let mut out = Tensor::<f32, 1>::zeros(&device, [64]).unwrap();
        let call = multiply_all::<32>(&mut out, 0.5, 100);
        call.grid(2).prepare(&device).unwrap().launch().unwrap();
        // x ↦ x / 2 + 1 / 2 tends to 1 in each of the eight chains.
        assert!(out.to_vec().unwrap().iter().all(|&v| (v - 8.0).abs() < 1e-5));
        let rates = probe(&device, 1 << 16, 4).unwrap();
        assert!(rates.read > 0.0 && rates.copy > 0.0 && rates.multiply > 0.0);
    }
}
