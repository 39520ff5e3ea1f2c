//! Functions of one tensor and combinations of two.

use super::data::{HostFloat, Placement, exactly, noise, stored, unit, widened};
use super::{Case, Expected};
use crate::activation::{
    Exp, GeluErf, GeluTanh, Identity, Log, Magnitude, Negate, Pointwise, Relu, Sigmoid, Silu,
    Square, SquareRoot, Tanh,
};
use crate::elementwise::{
    Combine, Larger, Minus, Over, Plus, SiluTimes, Smaller, Times, add, combine, convert, map, mul,
    scale, swiglu,
};
use metile::prelude::*;
use metile::{KernelCall, lang::kernel::type_label};

/// 16 roundings of a value and its argument: what a function may be off by.
fn function_error(x: f64, y: f64) -> f64 {
    16.0 * unit::<f32>() * (x.abs() + y.abs())
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu_tanh(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + u.tanh())
}

fn gelu_erf(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2))
}

fn maps<T: HostFloat, F: Pointwise>(
    shape: [usize; 2],
    placement: Placement,
    reference: fn(f64) -> f64,
) -> Case {
    let name = format!("map {} {} {shape:?} {placement:?}", type_label::<F>(), T::DTYPE);
    Case::new("elementwise", name, move |trial| {
        let n = shape[0] * shape[1];
        let x = noise::<T>(n, 100);
        let input = trial.place(shape, &x, placement, T::nearest(f32::NAN))?;
        let mut out = trial.place(shape, &vec![T::nearest(0.0); n], placement, T::nearest(7.0))?;
        trial.launch(map::<T, F>(&input.view, &mut out.view))?;
        let want = widened(&x).into_iter().map(|x| {
            let y = reference(x);
            stored::<T>(y, function_error(x, y))
        });
        Ok((trial.results(&out)?, want.collect()))
    })
}

/// An entry function of two tensors.
type Entry<T> =
    for<'c> fn(&'c Tensor<T, 2>, &'c Tensor<T, 2>, &'c mut Tensor<T, 2>) -> KernelCall<'c>;

fn combines<T: HostFloat>(
    what: &'static str,
    entry: Entry<T>,
    shape: [usize; 2],
    placement: Placement,
    reference: fn(f64, f64) -> f64,
) -> Case {
    let name = format!("{what} {} {shape:?} {placement:?}", T::DTYPE);
    Case::new("elementwise", name, move |trial| {
        let n = shape[0] * shape[1];
        let (x, y) = (noise::<T>(n, 101), noise::<T>(n, 102));
        let left = trial.place(shape, &x, placement, T::nearest(f32::NAN))?;
        let right = trial.place(shape, &y, placement, T::nearest(f32::NAN))?;
        let mut out = trial.place(shape, &vec![T::nearest(0.0); n], placement, T::nearest(7.0))?;
        trial.launch(entry(&left.view, &right.view, &mut out.view))?;
        let pairs = widened(&x).into_iter().zip(widened(&y));
        let want = pairs.map(|(x, y)| {
            let z = reference(x, y);
            stored::<T>(z, function_error(0.0, z))
        });
        Ok((trial.results(&out)?, want.collect()))
    })
}

fn combines_by<F: Combine>(reference: fn(f64, f64) -> f64) -> Case {
    let label = match type_label::<F>().as_str() {
        "Minus" => "combine Minus",
        "Over" => "combine Over",
        "Larger" => "combine Larger",
        "Smaller" => "combine Smaller",
        "Plus" => "combine Plus",
        "Times" => "combine Times",
        _ => "combine SiluTimes",
    };
    combines::<f32>(label, combine::<f32, F>, [3, 31], Placement::Plain, reference)
}

fn converts<T: HostFloat, U: HostFloat>(shape: [usize; 2]) -> Case {
    let name = format!("convert {} to {} {shape:?}", T::DTYPE, U::DTYPE);
    Case::new("elementwise", name, move |trial| {
        let x = noise::<T>(shape.iter().product(), 44);
        let input = trial.tensor(shape, &x)?;
        let mut out = trial.zeros::<U, 2>(shape)?;
        trial.launch(convert(&input, &mut out))?;
        let nearest: Vec<U> = widened(&x).iter().map(|&v| U::nearest(v as f32)).collect();
        let want = widened(&nearest).into_iter().map(exactly);
        Ok((widened(&out.to_vec()?), want.collect()))
    })
}

fn scales<T: HostFloat>(shape: [usize; 2]) -> Case {
    Case::new("elementwise", format!("scale {} {shape:?}", T::DTYPE), move |trial| {
        let n = shape[0] * shape[1];
        let x = noise::<T>(n, 103);
        let input = trial.tensor(shape, &x)?;
        let mut out = trial.zeros::<T, 2>(shape)?;
        trial.launch(scale(&input, 0.3, &mut out))?;
        let product = |x: f64| stored::<T>(x * f64::from(0.3f32), function_error(0.0, x));
        let want: Vec<Expected> = widened(&x).into_iter().map(product).collect();
        Ok((widened(&out.to_vec()?), want))
    })
}

/// Infinities, NaN and signed zeros through what only compares and moves.
fn specials() -> Case {
    Case::new("elementwise", "map Relu specials".to_owned(), |trial| {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-40, -1e-40];
        let input = trial.tensor([1, x.len()], &x)?;
        let mut out = trial.zeros::<f32, 2>([1, x.len()])?;
        trial.launch(map::<f32, Relu>(&input, &mut out))?;
        let want = x.iter().map(|&x| exactly(if x < 0.0 { 0.0 } else { f64::from(x) }));
        Ok((widened(&out.to_vec()?), want.collect()))
    })
    .exact()
}

pub fn cases() -> Vec<Case> {
    use Placement::Plain;
    let mut all = vec![
        maps::<f32, Identity>([3, 31], Plain, |x| x).exact(),
        maps::<f16, Identity>([3, 31], Plain, |x| x).exact(),
        maps::<f32, Negate>([3, 31], Plain, |x| -x).exact(),
        maps::<f32, Magnitude>([3, 31], Plain, f64::abs).exact(),
        maps::<f32, Relu>([3, 31], Plain, |x| x.max(0.0)).exact(),
        maps::<f32, GeluTanh>([3, 31], Plain, gelu_tanh),
        maps::<f32, GeluErf>([3, 31], Plain, gelu_erf),
        maps::<f32, Silu>([3, 31], Plain, silu),
        maps::<f32, Sigmoid>([3, 31], Plain, |x| 1.0 / (1.0 + (-x).exp())),
        maps::<f32, Tanh>([3, 31], Plain, f64::tanh),
        maps::<f32, Exp>([3, 31], Plain, f64::exp),
        maps::<f32, Log>([3, 31], Plain, f64::ln),
        maps::<f32, SquareRoot>([3, 31], Plain, f64::sqrt),
        maps::<f32, Square>([3, 31], Plain, |x| x * x),
        converts::<f32, bf16>([3, 300]),
        converts::<f32, f16>([70, 64]),
        converts::<bf16, f32>([2, 5000]),
        scales::<f32>([2, 64]),
        scales::<bf16>([2, 300]),
        specials(),
    ];
    for shape in [[1, 1], [2, 2], [2, 64], [1, 576], [2, 896], [1, 1025], [0, 8], [8, 0]] {
        all.push(maps::<f16, GeluTanh>(shape, Plain, gelu_tanh));
        all.push(maps::<bf16, GeluErf>(shape, Plain, gelu_erf));
        all.push(combines::<f32>("add", add, shape, Plain, |x, y| x + y));
        all.push(combines::<f16>("mul", mul, shape, Plain, |x, y| x * y));
        all.push(combines::<bf16>("swiglu", swiglu, shape, Plain, |x, y| silu(x) * y));
        all.push(combines::<f32>("swiglu", swiglu, shape, Plain, |x, y| silu(x) * y));
    }
    all.push(combines::<f32>("add", add, [2, 17_000], Plain, |x, y| x + y));
    for placement in Placement::ALL {
        all.push(maps::<f32, Silu>([5, 37], placement, silu));
        all.push(combines::<f16>("add", add, [5, 37], placement, |x, y| x + y));
    }
    all.push(combines_by::<Plus>(|x, y| x + y));
    all.push(combines_by::<Times>(|x, y| x * y));
    all.push(combines_by::<Minus>(|x, y| x - y));
    all.push(combines_by::<Over>(|x, y| x / y));
    all.push(combines_by::<Larger>(f64::max));
    all.push(combines_by::<Smaller>(f64::min));
    all.push(combines_by::<SiluTimes>(|x, y| silu(x) * y));
    all
}
