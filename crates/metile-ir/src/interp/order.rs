//! The order in which the programs of a launch start.

/// The order in which programs run.
pub(super) struct Order {
    programs: u64,
    factor: u64,
    offset: u64,
}

impl Order {
    pub fn new(programs: u64, seed: Option<u64>) -> Order {
        let Some(seed) = seed else { return Order { programs, factor: 1, offset: 0 } };
        let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31);
        // A factor coprime to the count makes the map a permutation.
        let gcd = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let mut factor = mixed % programs.max(1);
        while gcd(factor.max(1), programs) != 1 || factor == 0 {
            factor += 1;
        }
        Order { programs, factor, offset: (mixed >> 32) % programs.max(1) }
    }

    pub fn at(&self, n: u64) -> u64 {
        // Below 2^31 each, so the product fits.
        (n * self.factor + self.offset) % self.programs
    }
}
