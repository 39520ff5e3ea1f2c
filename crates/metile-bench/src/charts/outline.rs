//! The outline of a distribution's density: a visual summary inside the observed range, not an interval.

/// Observations that an outline has to have: fewer are shown as points alone.
pub(super) const LEAST: usize = 9;

/// Heights from 0 to 1 at values from the least to the greatest observation: a Gaussian kernel density with
/// Silverman's rule of thumb (Density Estimation for Statistics and Data Analysis, 1986, eq. 3.31).
/// `None` for small or constant sets.
pub(super) fn outline(observations: &[f64]) -> Option<Vec<(f64, f64)>> {
    const STEPS: usize = 48;
    let n = observations.len();
    if n < LEAST {
        return None;
    }
    let mut sorted = observations.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted[0], sorted[n - 1]);
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let deviation =
        (sorted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt();
    let quartile = |part: f64| sorted[((n - 1) as f64 * part).round() as usize];
    let spread = (quartile(0.75) - quartile(0.25)) / 1.34;
    let spread = if spread > 0.0 { spread.min(deviation) } else { deviation };
    let bandwidth = 0.9 * spread * (n as f64).powf(-0.2);
    if !(bandwidth > 0.0 && low < high) {
        return None;
    }
    let density = |at: f64| -> f64 {
        sorted.iter().map(|v| (-0.5 * ((at - v) / bandwidth).powi(2)).exp()).sum()
    };
    let points: Vec<(f64, f64)> = (0..=STEPS)
        .map(|i| low + (high - low) * i as f64 / STEPS as f64)
        .map(|at| (at, density(at)))
        .collect();
    let top = points.iter().map(|p| p.1).fold(0.0, f64::max);
    (top > 0.0).then(|| points.into_iter().map(|(at, d)| (at, d / top)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_constant_sets_have_none() {
        assert!(outline(&[1.0, 2.0, 3.0, 4.0, 5.0]).is_none());
        assert!(outline(&[1.0; 20]).is_none());
    }

    #[test]
    fn it_stays_within_the_observed_range() {
        let observations: Vec<f64> = (0..9).map(|n| 0.1 + 0.01 * f64::from(n * n)).collect();
        let points = outline(&observations).unwrap();
        assert_eq!(points.first().unwrap().0, 0.1);
        assert!((points.last().unwrap().0 - 0.74).abs() < 1e-12);
        assert!(points.iter().all(|p| (0.0..=1.0).contains(&p.1)));
    }
}
