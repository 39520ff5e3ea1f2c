//! References in f64.

use super::harness::Oracle;
use half::f16;

/// Everything in f64, rounded at the end only.
pub const LATE: &str = "in the final cast only";
/// The normalized value is rounded to f16 before it meets the weight.
pub const EARLY_F16: &str = "to float16 before the weight";

/// y = x · weight / √(mean(x²) + eps), row by row (Zhang and Sennrich, 2019).
pub struct RmsNorm {
    /// One for each column.
    pub weight: Vec<f32>,
    /// Added to the mean.
    pub eps: f64,
}

impl Oracle for RmsNorm {
    fn row(&self, policy: &str, inputs: &[Vec<f32>], row: usize) -> Vec<f64> {
        let cols = self.weight.len();
        let x = &inputs[0][row * cols..][..cols];
        let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / cols as f64;
        let scale = 1.0 / (mean + self.eps).sqrt();
        let each = x.iter().zip(&self.weight).map(|(&v, &w)| {
            let normalized = f64::from(v) * scale;
            let normalized =
                if policy == EARLY_F16 { f16::from_f64(normalized).to_f64() } else { normalized };
            normalized * f64::from(w)
        });
        each.collect()
    }
}

/// out = x · w, x being the first fresh input and w `[inner, cols]` the second.
pub struct Gemm {
    /// Columns of x.
    pub inner: usize,
    /// Columns of w.
    pub cols: usize,
}

impl Oracle for Gemm {
    fn row(&self, _policy: &str, inputs: &[Vec<f32>], row: usize) -> Vec<f64> {
        let x = &inputs[0][row * self.inner..][..self.inner];
        let mut out = vec![0.0; self.cols];
        for (&factor, w) in x.iter().zip(inputs[1].chunks_exact(self.cols)) {
            for (sum, &w) in out.iter_mut().zip(w) {
                *sum += f64::from(factor) * f64::from(w);
            }
        }
        out
    }
}
