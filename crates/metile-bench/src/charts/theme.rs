//! Colours: two variants, told apart by readers with any kind of colour vision, and by shape as well.

use plotters::style::RGBColor;

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark marks on white.
    Light,
    /// Light marks on near-black.
    Dark,
}

impl Theme {
    /// Both.
    pub const ALL: [Theme; 2] = [Theme::Light, Theme::Dark];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }

    pub(super) fn background(self) -> RGBColor {
        match self {
            Theme::Light => RGBColor(255, 255, 255),
            Theme::Dark => RGBColor(20, 22, 26),
        }
    }

    pub(super) fn ink(self) -> RGBColor {
        match self {
            Theme::Light => RGBColor(26, 28, 32),
            Theme::Dark => RGBColor(236, 238, 241),
        }
    }

    pub(super) fn quiet(self) -> RGBColor {
        match self {
            Theme::Light => RGBColor(84, 88, 96),
            Theme::Dark => RGBColor(170, 176, 186),
        }
    }

    pub(super) fn grid(self) -> RGBColor {
        match self {
            Theme::Light => RGBColor(224, 226, 230),
            Theme::Dark => RGBColor(52, 56, 63),
        }
    }

    /// Colours of series, in order: the candidate first, its baseline second. After Okabe and Ito's palette
    /// (https://jfly.uni-koeln.de/color/), lightness changed where a background asks for contrast.
    pub(super) fn series(self, number: usize) -> RGBColor {
        let colours = match self {
            Theme::Light => [
                RGBColor(0, 95, 160),
                RGBColor(205, 85, 0),
                RGBColor(0, 140, 105),
                RGBColor(178, 90, 140),
                RGBColor(90, 90, 90),
                RGBColor(130, 105, 0),
            ],
            Theme::Dark => [
                RGBColor(86, 180, 233),
                RGBColor(238, 130, 40),
                RGBColor(0, 158, 115),
                RGBColor(240, 185, 215),
                RGBColor(180, 180, 180),
                RGBColor(240, 228, 66),
            ],
        };
        colours[number % colours.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(c: u8) -> f64 {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    }

    fn channels(c: RGBColor) -> [f64; 3] {
        [linear(c.0), linear(c.1), linear(c.2)]
    }

    fn luminance([r, g, b]: [f64; 3]) -> f64 {
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let (a, b) = (luminance(channels(a)), luminance(channels(b)));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// How colours look without one kind of cone: Machado, Oliveira, Fernandes 2009, severity 1.
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("full", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let row = |m: [f64; 3]| m[0] * rgb[0] + m[1] * rgb[1] + m[2] * rgb[2];
        let x = row([0.4124, 0.3576, 0.1805]) / 0.95047;
        let y = row([0.2126, 0.7152, 0.0722]);
        let z = row([0.0193, 0.1192, 0.9505]) / 1.08883;
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        [116.0 * f(y) - 16.0, 500.0 * (f(x) - f(y)), 200.0 * (f(y) - f(z))]
    }

    fn seen(c: RGBColor, m: [[f64; 3]; 3]) -> [f64; 3] {
        let c = channels(c);
        lab(m.map(|r| (r[0] * c[0] + r[1] * c[1] + r[2] * c[2]).clamp(0.0, 1.0)))
    }

    #[test]
    fn text_and_marks_stand_out_from_the_background() {
        for theme in Theme::ALL {
            assert!(contrast(theme.ink(), theme.background()) >= 7.0);
            assert!(contrast(theme.quiet(), theme.background()) >= 4.5);
            for n in 0..6 {
                let c = contrast(theme.series(n), theme.background());
                assert!(c >= 3.0, "{theme:?} series {n}: {c:.2}");
            }
        }
    }

    #[test]
    fn series_differ_for_every_kind_of_colour_vision() {
        for theme in Theme::ALL {
            for (vision, m) in VISIONS {
                for a in 0..4 {
                    for b in 0..a {
                        let (x, y) = (seen(theme.series(a), m), seen(theme.series(b), m));
                        let distance =
                            x.iter().zip(y).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
                        // The first two are on every chart and far apart; the others have shapes too.
                        let least = if a < 2 { 40.0 } else { 12.0 };
                        assert!(
                            distance >= least,
                            "{theme:?} {vision}: series {a} and {b}: {distance:.1}"
                        );
                    }
                }
            }
        }
    }
}
