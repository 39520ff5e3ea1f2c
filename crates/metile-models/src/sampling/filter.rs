//! Which tokens may be drawn. Candidates are (weight, id); the most likely one always stays.

use std::cmp::Ordering;

/// How many of the most likely are sorted at first; most distributions need no more.
const FIRST: usize = 64;
/// A sum reaches a share if it falls short by no more than the rounding of f32 weights.
const ROUNDING: f64 = 4.0 * f32::EPSILON as f64;

/// More likely first, then the lower id.
fn order(a: &(f32, u32), b: &(f32, u32)) -> Ordering {
    b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
}

/// Keeps the `k` most likely; 0: all.
pub(super) fn top_k(candidates: &mut Vec<(f32, u32)>, k: usize) {
    if k > 0 && k < candidates.len() {
        candidates.select_nth_unstable_by(k - 1, order);
        candidates.truncate(k);
    }
    // The order a draw goes through them must not depend on how the selection left them.
    if k > 0 {
        candidates.sort_unstable_by(order);
    }
}

/// Keeps the fewest most likely whose weights sum to the share `p` of all.
pub(super) fn top_p(candidates: &mut Vec<(f32, u32)>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let total: f64 = candidates.iter().map(|&(weight, _)| f64::from(weight)).sum();
    let wanted = f64::from(p) * total * (1.0 - ROUNDING);
    let mut sorted = FIRST;
    loop {
        // A vocabulary is large and what stays mostly small: sort no more than is needed.
        let all = sorted >= candidates.len();
        if !all {
            candidates.select_nth_unstable_by(sorted - 1, order);
        }
        let head_len = sorted.min(candidates.len());
        let head = &mut candidates[..head_len];
        head.sort_unstable_by(order);
        let mut sum = 0.0;
        let reached = head.iter().position(|&(weight, _)| {
            sum += f64::from(weight);
            sum >= wanted
        });
        match reached {
            Some(last) => return candidates.truncate(last + 1),
            None if all => return,
            None => sorted *= 8,
        }
    }
}
