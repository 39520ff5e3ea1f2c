//! One recorded list of launches serves while the text grows: only `state` changes.

use metile::{CommandList, Device, Tensor};
use metile_kernels as kernels;
use metile_kernels::DecodeBuffers;

const WIDTH: usize = 64;
const CAPACITY: usize = 40;

fn noise(n: usize, seed: u32) -> Vec<f32> {
    (0..n as u32)
        .map(|i| {
            let hash = (i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(40_503))
                .wrapping_mul(1_597_334_677);
            (hash >> 16) as f32 / 32_768.0 - 1.0
        })
        .collect()
}

fn devices() -> Vec<Device> {
    vec![Device::interpreter(), Device::cpu()]
}

/// Token by token through one list, and all tokens at once, give the same attention.
#[test]
fn decode_agrees_with_prefill() {
    let (heads, kv_heads, rows) = (3, 1, 38);
    for device in devices() {
        let tensor = |shape, values: &[f32]| Tensor::from_slice(&device, shape, values).unwrap();
        let q = noise(rows * heads * WIDTH, 1);
        let k = noise(rows * kv_heads * WIDTH, 2);
        let v = noise(rows * kv_heads * WIDTH, 3);
        let cache = || Tensor::<f32, 3>::zeros(&device, [kv_heads, CAPACITY, WIDTH]).unwrap();

        let (mut keys, mut values) = (cache(), cache());
        let state = Tensor::from_slice(&device, [2], &[0, rows as i64]).unwrap();
        let mut whole = Tensor::<f32, 2>::zeros(&device, [rows, heads * WIDTH]).unwrap();
        let mut list = CommandList::new(&device);
        let k_all = tensor([rows, kv_heads, WIDTH], &k);
        let v_all = tensor([rows, kv_heads, WIDTH], &v);
        let q_all = tensor([rows, heads, WIDTH], &q);
        list.record(kernels::kv_write(&k_all, &mut keys, &state)).unwrap();
        list.record(kernels::kv_write(&v_all, &mut values, &state)).unwrap();
        let call = kernels::prefill_attention(&q_all, &keys, &values, &mut whole, &state, 0.125);
        list.record(call).unwrap();
        list.replay().unwrap();
        let whole = whole.to_vec().unwrap();

        let (mut keys, mut values) = (cache(), cache());
        let q_one = tensor([1, heads, WIDTH], &q[..heads * WIDTH]);
        let k_one = tensor([1, kv_heads, WIDTH], &k[..kv_heads * WIDTH]);
        let v_one = tensor([1, kv_heads, WIDTH], &v[..kv_heads * WIDTH]);
        let mut out = Tensor::<f32, 2>::zeros(&device, [1, heads * WIDTH]).unwrap();
        let mut parts = DecodeBuffers::new(&device, heads, CAPACITY, WIDTH).unwrap();
        let mut list = CommandList::new(&device);
        list.record(kernels::kv_write(&k_one, &mut keys, &state)).unwrap();
        list.record(kernels::kv_write(&v_one, &mut values, &state)).unwrap();
        let call =
            kernels::decode_attention_parts(&q_one, &keys, &values, &mut parts, &state, 0.125);
        list.record(call).unwrap();
        list.record(kernels::decode_attention_merge(&parts, &mut out, &state)).unwrap();
        for row in 0..rows {
            let fill = |tensor: &Tensor<f32, 3>, all: &[f32], n: usize| {
                let bytes: Vec<u8> =
                    all[row * n..(row + 1) * n].iter().flat_map(|v| v.to_le_bytes()).collect();
                tensor.raw().parts[0].storage.write(0, &bytes).unwrap();
            };
            fill(&q_one, &q, heads * WIDTH);
            fill(&k_one, &k, kv_heads * WIDTH);
            fill(&v_one, &v, kv_heads * WIDTH);
            let position: Vec<u8> = [row as i64, 1].iter().flat_map(|v| v.to_le_bytes()).collect();
            state.raw().parts[0].storage.write(0, &position).unwrap();
            list.replay().unwrap();
            let want = &whole[row * heads * WIDTH..(row + 1) * heads * WIDTH];
            for (got, want) in out.to_vec().unwrap().iter().zip(want) {
                assert!((got - want).abs() < 2e-6, "row {row} on {}: {got} {want}", device.name());
            }
        }
    }
}

/// Launches that have nothing to do with each other may run side by side; each still sees what those
/// before it wrote. Chains of sums and products in an order that mixes them, replayed often.
#[test]
fn launches_see_what_earlier_ones_wrote() {
    use kernels::elementwise::{Plus, Times, combine};
    const LENGTH: usize = 5_000;
    for device in devices() {
        let ones = Tensor::from_slice(&device, [1, LENGTH], &[1.0f32; LENGTH]).unwrap();
        let twos = Tensor::from_slice(&device, [1, LENGTH], &[2.0f32; LENGTH]).unwrap();
        let new = || Tensor::<f32, 2>::zeros(&device, [1, LENGTH]).unwrap();
        let (mut a, mut b, mut c, mut d) = (new(), new(), new(), new());
        let mut list = CommandList::new(&device);
        for _ in 0..4 {
            // a and b are apart; c reads both, and a is written again while d still reads c.
            list.record(combine::<f32, Plus>(&ones, &twos, &mut a)).unwrap();
            list.record(combine::<f32, Times>(&twos, &twos, &mut b)).unwrap();
            list.record(combine::<f32, Plus>(&a, &b, &mut c)).unwrap();
            list.record(combine::<f32, Times>(&c, &twos, &mut d)).unwrap();
            list.record(combine::<f32, Plus>(&d, &ones, &mut a)).unwrap();
            list.record(combine::<f32, Plus>(&a, &d, &mut b)).unwrap();
        }
        for _ in 0..if device.name() == "cpu" { 200 } else { 1 } {
            list.replay().unwrap();
            for (tensor, want) in [(&a, 15.0), (&b, 29.0), (&c, 7.0), (&d, 14.0)] {
                assert!(tensor.to_vec().unwrap().iter().all(|v| *v == want));
            }
        }
        let times = list.replay_timed().unwrap();
        assert_eq!(times.len(), list.len());
        assert!(times[0].0.contains("Plus"), "{times:?}");
    }
}
