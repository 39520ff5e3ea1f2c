//! The order in which arms take their turns, which the recorded seed decides.

use crate::random::Random;

/// The order of `arms` arms in a pair (or round) of a case: as drawn by the seed in even pairs, the other way
/// round in odd ones. With two arms they alternate, and the seed draws who is first in pair 0.
pub fn of_pair(seed: u64, case: &str, arms: usize, pair: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..arms).collect();
    let mut random = Random::named(seed, &["order", case]);
    for last in (1..arms).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    if pair % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::of_pair;

    #[test]
    fn two_arms_alternate_and_the_seed_draws_the_first() {
        let mut firsts = [0; 2];
        for seed in 0..64 {
            let first = of_pair(seed, "case", 2, 0);
            for pair in 0..6 {
                let mut expected = first.clone();
                if pair % 2 == 1 {
                    expected.reverse();
                }
                assert_eq!(of_pair(seed, "case", 2, pair), expected);
            }
            firsts[first[0]] += 1;
        }
        assert!(firsts.iter().all(|&n| n > 16), "{firsts:?}");
    }

    #[test]
    fn an_order_is_a_permutation_and_depends_on_the_case() {
        let orders: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|c| of_pair(7, c, 4, 0)).into();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert!(orders.iter().any(|o| o != &orders[0]));
    }
}
