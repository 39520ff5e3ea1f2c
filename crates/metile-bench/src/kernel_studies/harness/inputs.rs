//! Inputs of a trial, drawn by its seed.

use crate::random::Random;
use crate::study::Refusal;
use crate::study::refusal_rules as rules;
use half::{bf16, f16};

/// Types that inputs are rounded to, so that every arm has the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// All of f32.
    F32,
    /// Values that f16 has.
    F16,
    /// Values that bf16 has.
    BF16,
}

impl Grid {
    /// The nearest value of the grid.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Grid::F32 => value,
            Grid::F16 => f16::from_f32(value).to_f32(),
            Grid::BF16 => bf16::from_f32(value).to_f32(),
        }
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Grid::F32 => "float32",
            Grid::F16 => "float16",
            Grid::BF16 => "bfloat16",
        }
    }
}

/// An input that is drawn anew for every trial.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// Its name.
    pub name: &'static str,
    /// Elements.
    pub elements: usize,
    /// Elements are drawn evenly from −scale to scale.
    pub scale: f32,
    /// What they are rounded to.
    pub grid: Grid,
}

/// Evenly distributed values.
pub fn draw(random: &mut Random, elements: usize, scale: f32, grid: Grid) -> Vec<f32> {
    (0..elements).map(|_| grid.round(scale * random.signed_unit())).collect()
}

/// The inputs of a seed.
///
/// # Errors
/// If one is constant: a kernel that ignores it could not be told from one that reads it.
pub fn fresh(specs: &[Fresh], seed: u64) -> Result<Vec<Vec<f32>>, Refusal> {
    let each = specs.iter().map(|spec| {
        let values =
            draw(&mut Random::named(seed, &[spec.name]), spec.elements, spec.scale, spec.grid);
        refuse_constant(spec.name, &values)?;
        Ok(values)
    });
    each.collect()
}

/// Refuses an input of several elements that are all alike.
///
/// # Errors
/// If it is one.
pub fn refuse_constant(name: &str, values: &[f32]) -> Result<(), Refusal> {
    match values {
        [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|v| v == first) => {
            Err(Refusal::Rule {
                rule: rules::CONSTANT,
                arm: None,
                message: format!("all {} elements of `{name}` are {first}", values.len()),
                mismatch: None,
            })
        }
        _ => Ok(()),
    }
}
