//! Value axes: linear from zero, or logarithmic; ticks; numbers as text.

use super::figure::Unit;

/// A value axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    unit: Unit,
    scale: f64,
    symbol: &'static str,
}

impl Axis {
    /// An axis on which all of `values` lie. A linear one starts at zero.
    pub fn new(values: &[f64], unit: Unit, log: bool) -> Axis {
        Axis::between(values, unit, log, true)
    }

    /// A linear axis around `values` that need not start at zero: for dots, never for bars.
    pub fn around(values: &[f64], unit: Unit) -> Axis {
        Axis::between(values, unit, false, false)
    }

    fn between(values: &[f64], unit: Unit, log: bool, from_zero: bool) -> Axis {
        let usable = values.iter().copied().filter(|v| v.is_finite() && (*v > 0.0 || !log));
        let (low, high) = usable.fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
        let high = if high > 0.0 { high } else { 1.0 };
        let (low, high) = if log {
            let low = if low.is_finite() { low } else { high / 10.0 };
            (low / 1.5, high * 1.5)
        } else if from_zero || !low.is_finite() {
            (0.0, high * 1.06)
        } else {
            // At least a twentieth of the value, so that noise does not look like a difference.
            let pad = (0.12 * (high - low)).max(0.025 * high);
            ((low - pad).max(0.0), high + pad)
        };
        let (scale, symbol) = match unit {
            Unit::Ratio => (1.0, "×"),
            Unit::Share => (100.0, "%"),
            Unit::TokensPerSecond => (1.0, "tokens/s"),
            Unit::BytesPerSecond => (1e-9, "GB/s"),
            Unit::Seconds if high >= 1.0 => (1.0, "s"),
            Unit::Seconds if high >= 1e-3 => (1e3, "ms"),
            Unit::Seconds => (1e6, "µs"),
        };
        Axis { low, high, log, unit, scale, symbol }
    }

    /// The symbol of its unit.
    pub fn symbol(&self) -> &'static str {
        self.symbol
    }

    /// Where a value is, as a part of the way from the low end to the high end.
    pub fn part(&self, value: f64) -> f64 {
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Whether a value has a place on it.
    pub fn holds(&self, value: f64) -> bool {
        value.is_finite() && value >= self.low && value <= self.high
    }

    /// Values of ticks with their labels, at most about `most`.
    pub fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let label = |v: f64, digits: usize| (v, format!("{:.digits$}", v * self.scale));
        if self.log {
            return self.log_ticks(most);
        }
        let span = (self.high - self.low) * self.scale;
        let raw = span / most.max(1) as f64;
        let magnitude = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|m| m * magnitude)
            .find(|s| *s >= raw * 0.999)
            .unwrap_or(10.0 * magnitude);
        let digits = (0..6)
            .find(|&d| {
                let at = 10f64.powi(d) * step;
                (at - at.round()).abs() < 1e-6 * at
            })
            .unwrap_or(6) as usize;
        let first = (self.low * self.scale / step).ceil();
        (0..)
            .map(|n| (first + f64::from(n)) * step / self.scale)
            .take_while(|v| *v <= self.high)
            .take(100)
            .map(|v| label(v, digits))
            .collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<(f64, String)> {
        let (low, high) = (self.low * self.scale, self.high * self.scale);
        let first = low.log10().floor() as i32;
        let last = high.log10().ceil() as i32;
        let all = |steps: &[f64]| -> Vec<f64> {
            (first..=last)
                .flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)))
                .filter(|v| *v >= low && *v <= high)
                .collect()
        };
        let fine = all(&[1.0, 2.0, 5.0]);
        let chosen = if fine.len() <= most.max(3) { fine } else { all(&[1.0]) };
        chosen.into_iter().map(|v| (v / self.scale, significant(v, 3))).collect()
    }

    /// A value as text beside its mark, with its unit where that is short.
    pub fn shown(&self, value: f64) -> String {
        let scaled = value * self.scale;
        match self.unit {
            Unit::Ratio => ratio(value),
            Unit::Share => format!("{scaled:.0} %"),
            Unit::Seconds => format!("{} {}", significant(scaled, 3), self.symbol),
            Unit::TokensPerSecond | Unit::BytesPerSecond => significant(scaled, 3),
        }
    }
}

/// A ratio with as many decimals as tell 0.998 from 1.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        // What is not 1 is not written as 1.
        v if v != 1.0 && (v - 1.0).abs() < 0.0005 => format!("{v:.4}×"),
        v if v < 10.0 => format!("{v:.3}×"),
        v => format!("{v:.1}×"),
    }
}

/// A number with `digits` significant digits, without an exponent.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let decimals = (digits - before).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_start_at_zero_and_hold_every_value() {
        let axis = Axis::new(&[0.91, 1.2], Unit::Ratio, false);
        assert_eq!(axis.part(0.0), 0.0);
        assert!(axis.holds(1.2) && axis.holds(0.91));
        let ticks = axis.ticks(5);
        assert_eq!(ticks[0].1.parse::<f64>().unwrap(), 0.0);
        assert!((3..=6).contains(&ticks.len()), "{ticks:?}");
    }

    #[test]
    fn a_cut_axis_is_never_narrower_than_a_twentieth() {
        let axis = Axis::around(&[0.1, 0.1001], Unit::Seconds);
        assert!(axis.part(0.1001) - axis.part(0.1) < 0.03);
        assert!(axis.ticks(6).iter().all(|(v, _)| axis.holds(*v)));
    }

    #[test]
    fn units_follow_the_largest_value() {
        assert_eq!(Axis::new(&[2.0e-4], Unit::Seconds, false).symbol(), "µs");
        assert_eq!(Axis::new(&[0.2], Unit::Seconds, false).symbol(), "ms");
        assert_eq!(Axis::new(&[7.0, 0.1], Unit::Seconds, false).symbol(), "s");
        assert_eq!(Axis::new(&[0.0911], Unit::Seconds, false).shown(0.0911), "91.1 ms");
    }

    #[test]
    fn a_loss_by_a_thousandth_is_seen_as_one() {
        assert_eq!(ratio(0.9984), "0.998×");
        assert_eq!(ratio(0.99975), "0.9998×");
    }

    #[test]
    fn log_ticks_lie_on_the_axis() {
        let axis = Axis::new(&[0.0007, 0.9], Unit::Seconds, true);
        let ticks = axis.ticks(6);
        assert!(!ticks.is_empty() && ticks.iter().all(|(v, _)| axis.holds(*v)), "{ticks:?}");
    }
}
