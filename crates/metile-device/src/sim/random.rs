//! Orders drawn from a seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// All numbers below `n`, each once.
    pub fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// The numbers below `count` in an order drawn from a seed, without a list of them.
pub(super) struct Walk {
    count: u64,
    step: u64,
    next: u64,
    left: u64,
}

impl Walk {
    pub fn new(count: u64, random: &mut Random) -> Walk {
        let mut step = 1 + random.below(count);
        while gcd(step, count) > 1 {
            step = step % count + 1;
        }
        Walk { count, step, next: random.below(count), left: count }
    }
}

impl Iterator for Walk {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let this = self.next;
        self.next = ((u128::from(this) + u128::from(self.step)) % u128::from(self.count)) as u64;
        Some(this)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
