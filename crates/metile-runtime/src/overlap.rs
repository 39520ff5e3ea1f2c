//! Whether two views of one storage share an element.

/// A strided set of byte positions: every `offset + Σ iₐ·strideₐ` with `iₐ < extentₐ`, each of
/// `width` bytes.
#[derive(Clone, Debug)]
pub struct Region {
    /// First byte of element 0.
    pub offset: i128,
    /// Extents.
    pub extents: Vec<u64>,
    /// Distances in bytes.
    pub strides: Vec<i128>,
    /// Bytes of one element.
    pub width: u64,
}

/// How many partial solutions are looked at before views count as overlapping. Views made by slicing
/// and exchanging axes need a few; only contrived strides need more.
const EFFORT: usize = 100_000;

impl Region {
    fn is_empty(&self) -> bool {
        self.width == 0 || self.extents.contains(&0)
    }
}

/// Whether some byte belongs to both. Exact, except that contrived stride patterns which take more
/// than a bounded effort to tell apart count as overlapping.
pub fn overlap(a: &Region, b: &Region) -> bool {
    if a.is_empty() || b.is_empty() {
        return false;
    }
    // Two elements share a byte if b's start minus a's start lies in -(width_b - 1) ..= width_a - 1.
    let goal = a.offset - b.offset;
    let mut terms: Vec<(i128, i128)> = Vec::new();
    let mut base = 0i128;
    let axes = |r: &Region, sign: i128| -> Vec<(i128, i128)> {
        r.extents.iter().zip(&r.strides).map(|(&e, &s)| (sign * s, i128::from(e) - 1)).collect()
    };
    for (step, count) in axes(b, 1).into_iter().chain(axes(a, -1)) {
        // Count every axis upwards: a negative step from 0 is a positive one from its far end.
        if step < 0 {
            base += step * count;
        }
        terms.push((step.abs(), count));
    }
    let terms = merged(terms);
    let low = goal - base - (i128::from(b.width) - 1);
    let high = goal - base + (i128::from(a.width) - 1);
    reachable(&terms, low, high, &mut EFFORT.clone())
}

/// Whether two indices of one region share a byte.
pub fn overlaps_itself(region: &Region) -> bool {
    if region.is_empty() {
        return false;
    }
    // Two different indices differ first in some axis, by 1 to extent - 1 steps; the axes after it
    // differ by anything in their range.
    (0..region.extents.len()).any(|axis| {
        let count = i128::from(region.extents[axis]) - 1;
        if count < 1 {
            return false;
        }
        let step = region.strides[axis];
        let mut base = step;
        let mut terms = vec![(step.abs(), count - 1)];
        if step < 0 {
            base += step * (count - 1);
        }
        for later in axis + 1..region.extents.len() {
            let (stride, reach) = (region.strides[later], i128::from(region.extents[later]) - 1);
            base -= stride.abs() * reach;
            terms.push((stride.abs(), 2 * reach));
        }
        let terms = merged(terms);
        let width = i128::from(region.width) - 1;
        reachable(&terms, -base - width, -base + width, &mut EFFORT.clone())
    })
}

/// Terms by falling step, those of one step as one: their counts add up.
fn merged(mut terms: Vec<(i128, i128)>) -> Vec<(i128, i128)> {
    terms.retain(|&(step, count)| step != 0 && count > 0);
    terms.sort_by_key(|&(step, _)| std::cmp::Reverse(step));
    terms.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    terms
}

/// Whether `low ..= high` holds a sum of `n·step` with `0 <= n <= count` for each term; terms are
/// sorted by falling step. True if `effort` runs out.
fn reachable(terms: &[(i128, i128)], low: i128, high: i128, effort: &mut usize) -> bool {
    let Some((&(step, count), rest)) = terms.split_first() else {
        return low <= 0 && 0 <= high;
    };
    if *effort == 0 {
        return true;
    }
    *effort -= 1;
    let reach: i128 = rest.iter().map(|&(step, count)| step * count).sum();
    // n·step must bring the rest of the way into 0 ..= reach.
    let first = (low - reach).div_euclid(step) + i128::from((low - reach).rem_euclid(step) != 0);
    let last = high.div_euclid(step);
    let (first, last) = (first.max(0), last.min(count));
    (first..=last).any(|n| reachable(rest, low - n * step, high - n * step, effort))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn bytes(r: &Region) -> Vec<i128> {
        let mut starts = vec![r.offset];
        for (&extent, &stride) in r.extents.iter().zip(&r.strides) {
            starts = starts
                .iter()
                .flat_map(|s| (0..i128::from(extent)).map(move |i| s + i * stride))
                .collect();
        }
        starts.iter().flat_map(|s| (0..i128::from(r.width)).map(move |b| s + b)).collect()
    }

    fn regions() -> impl Strategy<Value = Region> {
        let axes = prop::collection::vec((0u64..5, -9i128..10), 1..4);
        (0i128..30, axes, 1u64..5).prop_map(|(offset, axes, width)| {
            let (extents, strides) = axes.into_iter().unzip();
            Region { offset, extents, strides, width }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]
        #[test]
        fn agrees_with_enumeration(a in regions(), b in regions()) {
            let (x, y) = (bytes(&a), bytes(&b));
            let set: HashSet<_> = x.iter().collect();
            prop_assert_eq!(overlap(&a, &b), y.iter().any(|v| set.contains(v)));
            prop_assert_eq!(overlaps_itself(&a), set.len() != x.len());
        }
    }

    #[test]
    fn interleaved_columns_are_apart() {
        let even =
            Region { offset: 0, extents: vec![1 << 20, 512], strides: vec![4096, 8], width: 4 };
        let odd = Region { offset: 4, ..even.clone() };
        assert!(!overlap(&even, &odd));
        assert!(overlap(&even, &even));
    }
}
