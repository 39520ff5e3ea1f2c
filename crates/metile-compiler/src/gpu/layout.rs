//! Which thread and register of a block owns which element of a tile.
//!
//! The sides of a tile are taken as if rounded up to powers of two, so that an element's coordinates are
//! bits. A layout gives each bit of the register number, the lane and the warp one of them: it is a permutation of bits. A bit of
//! the lane or the warp that stands for none repeats the elements: threads that differ in it hold the same ones.

use metile_ir::tile::{MAX_RANK, Shape};
use std::fmt;

/// One bit of one coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bit {
    /// The axis.
    pub axis: u8,
    /// Which bit of the coordinate, from the lowest.
    pub bit: u8,
}

/// The owner of each element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// What each bit of the register number stands for, from the lowest.
    pub registers: Vec<Bit>,
    /// What each bit of the lane stands for.
    pub lanes: [Option<Bit>; 5],
    /// What each bit of the warp's number stands for.
    pub warps: Vec<Option<Bit>>,
}

/// Bits of the coordinates along a side.
pub fn bits(side: usize) -> u8 {
    side.next_power_of_two().trailing_zeros() as u8
}

impl Layout {
    /// A layout that gives the bits of `order` to `vector` bits of the register, then to lanes, warps, and more registers.
    fn dealt(order: &[Bit], vector: usize, warp_bits: usize) -> Layout {
        let vector = vector.min(order.len());
        let (mut registers, rest) = (order[..vector].to_vec(), &order[vector..]);
        let mut rest = rest.iter().copied();
        let lanes = std::array::from_fn(|_| rest.next());
        let warps = (0..warp_bits).map(|_| rest.next()).collect();
        registers.extend(rest);
        Layout { registers, lanes, warps }
    }

    /// The layout for accesses of `vector` neighbours along the axis `inner`: they are registers of one thread, and
    /// neighbouring threads continue along the axis, then along the others, the last ones first.
    pub fn blocked(shape: &Shape, inner: usize, vector: usize, warps: u32) -> Layout {
        let mut axes: Vec<usize> = (0..shape.rank()).rev().collect();
        axes.sort_by_key(|&axis| axis != inner);
        let along = |&axis: &usize| {
            (0..bits(shape.side(axis))).map(move |bit| Bit { axis: axis as u8, bit })
        };
        let order: Vec<Bit> = axes.iter().flat_map(along).collect();
        let all = order.len();
        let warp_bits = warps.trailing_zeros() as usize;
        // Threads first: vectors only of what they leave.
        let spare = all.saturating_sub(5 + warp_bits);
        let inner_bits = if shape.rank() == 0 { 0 } else { bits(shape.side(inner)) as usize };
        let vector = (vector.trailing_zeros() as usize).min(inner_bits).min(spare);
        Layout::dealt(&order, vector, warp_bits)
    }

    /// A layout for sums of products: a thread has `rows` × `columns` of them. Up to four neighbours along each axis are registers of one
    /// thread; what it has besides is at the axis's far end, so that neighbouring threads' neighbours lie beside each other.
    pub fn outer_product(shape: &Shape, rows: usize, columns: usize, warps: u32) -> Layout {
        let (m, n) = (bits(shape.side(0)), bits(shape.side(1)));
        let warp_bits = warps.trailing_zeros() as u8;
        let spare = (m + n).saturating_sub(5 + warp_bits);
        let c = bits(columns).min(n).min(spare);
        let r = bits(rows).min(m).min(spare - c);
        let mut registers = Vec::new();
        let mut left = [Vec::new(), Vec::new()];
        for (axis, all, count) in [(1, n, c), (0, m, r)] {
            let bit = move |bit| Bit { axis, bit };
            let low = count.min(2);
            let high = all - (count - low);
            registers.extend((0..low).chain(high..all).map(bit));
            left[usize::from(axis)].extend((low..high).map(bit));
        }
        let [mut rows_left, mut columns_left] = left;
        // Lanes: about half along columns, so that both operands are read by several lanes at once.
        let mut order = Vec::new();
        for (from, count) in [(&mut columns_left, 3), (&mut rows_left, 2)] {
            order.extend(from.drain(..count.min(from.len())));
        }
        order.extend(columns_left);
        order.extend(rows_left);
        let mut rest = order.into_iter();
        let lanes = std::array::from_fn(|_| rest.next());
        let warps = (0..warp_bits).map(|_| rest.next()).collect();
        registers.extend(rest);
        Layout { registers, lanes, warps }
    }

    /// The layout for reading rows that are stored as columns: `vector` neighbours along the inner axis 1 in a thread, four threads beside
    /// each other along it, then neighbouring rows. Threads of a warp then store to different banks.
    pub fn turning(shape: &Shape, vector: usize, warps: u32) -> Layout {
        let (m, n) = (bits(shape.side(0)), bits(shape.side(1)));
        let row = |bit| Bit { axis: 0, bit };
        let column = |bit| Bit { axis: 1, bit };
        let warp_bits = warps.trailing_zeros() as usize;
        let spare = (m + n).saturating_sub(5 + warps.trailing_zeros() as u8);
        let v = (vector.trailing_zeros() as u8).min(n).min(spare);
        let beside = (v + 2).min(n);
        let lines = 3.min(m);
        let order = (0..beside).map(column).chain((0..lines).map(row));
        let order: Vec<Bit> =
            order.chain((beside..n).map(column)).chain((lines..m).map(row)).collect();
        Layout::dealt(&order, usize::from(v), warp_bits)
    }

    /// Registers of a thread.
    pub fn count(&self) -> u32 {
        1 << self.registers.len()
    }

    /// The coordinate along `axis` that register `register` adds.
    pub fn register_part(&self, register: u32, axis: usize) -> i64 {
        let mut at = 0;
        for (n, bit) in self.registers.iter().enumerate() {
            if bit.axis as usize == axis && register >> n & 1 == 1 {
                at |= 1 << bit.bit;
            }
        }
        at
    }

    /// Bits of the thread's number with what they stand for.
    pub fn thread_bits(&self) -> impl Iterator<Item = (u8, Bit)> + '_ {
        let lanes = self.lanes.iter().enumerate();
        let warps = self.warps.iter().enumerate().map(|(n, bit)| (n + 5, bit));
        lanes.chain(warps).filter_map(|(n, bit)| bit.map(|bit| (n as u8, bit)))
    }

    /// Bits of the thread's number that stand for nothing.
    pub fn repeated(&self) -> u32 {
        let lanes = self.lanes.iter().enumerate();
        let warps = self.warps.iter().enumerate().map(|(n, bit)| (n + 5, bit));
        lanes.chain(warps).filter(|(_, bit)| bit.is_none()).fold(0, |mask, (n, _)| mask | 1 << n)
    }

    /// With every bit renamed; a bit that gets no name goes away from registers, and is repeated elsewhere.
    pub fn renamed(&self, name: impl Fn(Bit) -> Option<Bit>) -> Layout {
        Layout {
            registers: self.registers.iter().filter_map(|&bit| name(bit)).collect(),
            lanes: self.lanes.map(|bit| bit.and_then(&name)),
            warps: self.warps.iter().map(|bit| bit.and_then(&name)).collect(),
        }
    }

    /// The layout of what has lost `axis`, as a reduction's result has.
    pub fn without(&self, axis: usize) -> Layout {
        self.renamed(|bit| match (bit.axis as usize).cmp(&axis) {
            std::cmp::Ordering::Less => Some(bit),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Bit { axis: bit.axis - 1, ..bit }),
        })
    }

    /// The layout that a tile of shape `from` has to have for its broadcast to `to` to have this one without a move.
    pub fn before_broadcast(&self, from: &Shape, to: &Shape) -> Layout {
        let lead = to.rank() - from.rank();
        self.renamed(|bit| {
            let axis = (bit.axis as usize).checked_sub(lead)?;
            (from.side(axis) > 1).then_some(Bit { axis: axis as u8, ..bit })
        })
    }

    /// The layout after axis `i` of the result is axis `axes[i]`.
    pub fn transposed(&self, axes: &[u8]) -> Layout {
        self.renamed(|bit| {
            let to = axes.iter().position(|&from| from == bit.axis)?;
            Some(Bit { axis: to as u8, ..bit })
        })
    }

    /// The layout after a row-major reshape, if that only renames bits: all sides powers of two, or only sides of 1 come and go.
    pub fn reshaped(&self, from: &Shape, to: &Shape) -> Option<Layout> {
        let long = |shape: &Shape| -> Vec<usize> {
            (0..shape.rank()).filter(|&axis| shape.side(axis) > 1).collect()
        };
        let (old, new) = (long(from), long(to));
        let sides = |shape: &Shape, axes: &[usize]| -> Vec<usize> {
            axes.iter().map(|&axis| shape.side(axis)).collect()
        };
        if sides(from, &old) == sides(to, &new) {
            return Some(self.renamed(|bit| {
                let n = old.iter().position(|&axis| axis == bit.axis as usize)?;
                Some(Bit { axis: new[n] as u8, ..bit })
            }));
        }
        let powers = |shape: &Shape| shape.sides().iter().all(|side| side.is_power_of_two());
        if !powers(from) || !powers(to) {
            return None;
        }
        let place = |shape: &Shape| -> [u8; MAX_RANK] {
            let mut first = [0; MAX_RANK];
            let mut at = 0;
            for axis in (0..shape.rank()).rev() {
                first[axis] = at;
                at += bits(shape.side(axis));
            }
            first
        };
        let (old, new) = (place(from), place(to));
        Some(self.renamed(|bit| {
            let at = old[bit.axis as usize] + bit.bit;
            let fits = |&axis: &usize| at >= new[axis] && at < new[axis] + bits(to.side(axis));
            let axis = (0..to.rank()).find(fits)?;
            Some(Bit { axis: axis as u8, bit: at - new[axis] })
        }))
    }

    /// Which register of a thread in layout `self` is register `n` in `other`, if the same threads hold the same elements
    /// in both; threads may hold more in `self`.
    pub fn same_threads(&self, other: &Layout) -> Option<Vec<u32>> {
        if self.lanes != other.lanes || self.warps != other.warps {
            return None;
        }
        let place = |bit: &Bit| self.registers.iter().position(|b| b == bit);
        let places: Option<Vec<usize>> = other.registers.iter().map(place).collect();
        let places = places?;
        if places.len() != self.registers.len() {
            return None;
        }
        Some(
            (0..other.count())
                .map(|n| {
                    places
                        .iter()
                        .enumerate()
                        .fold(0, |at, (bit, place)| at | (n >> bit & 1) << place)
                })
                .collect(),
        )
    }

    /// The layout of the part of a tile that keeps `keep` of the axis, when the bits above are registers; and which registers stay, for
    /// the part that starts at `start`. `start` is a multiple of `keep`, a power of two.
    pub fn aligned_part(
        &self,
        axis: usize,
        start: usize,
        keep: usize,
    ) -> Option<(Layout, Vec<u32>)> {
        if !keep.is_power_of_two() || !start.is_multiple_of(keep) {
            return None;
        }
        let low = bits(keep);
        let above = |bit: &Bit| bit.axis as usize == axis && bit.bit >= low;
        if self.thread_bits().any(|(_, bit)| above(&bit)) {
            return None;
        }
        let part = self.renamed(|bit| (!above(&bit)).then_some(bit));
        let high = (start >> low) as i64;
        let kept = (0..self.count())
            .filter(|&register| self.register_part(register, axis) >> low == high)
            .collect();
        Some((part, kept))
    }
}

impl fmt::Display for Layout {
    /// `registers [1:0 1:1] lanes [1:2 1:3 0:0 - -] warps [0:1]`, each bit as axis:bit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |bit: &Option<Bit>| match bit {
            Some(bit) => format!("{}:{}", bit.axis, bit.bit),
            None => "-".to_owned(),
        };
        let registers: Vec<String> = self.registers.iter().map(|&b| name(&Some(b))).collect();
        let lanes: Vec<String> = self.lanes.iter().map(name).collect();
        let warps: Vec<String> = self.warps.iter().map(name).collect();
        let [registers, lanes, warps] = [registers, lanes, warps].map(|names| names.join(" "));
        write!(f, "registers [{registers}] lanes [{lanes}] warps [{warps}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn shape(sides: &[usize]) -> Shape {
        Shape::new(sides).unwrap()
    }

    /// All elements that some thread and register owns.
    fn owned(layout: &Layout, shape: &Shape) -> HashSet<Vec<i64>> {
        let threads = 32 << layout.warps.len();
        let mut all = HashSet::new();
        for thread in 0..threads {
            for register in 0..layout.count() {
                let at = (0..shape.rank()).map(|axis| {
                    let of_thread = layout
                        .thread_bits()
                        .filter(|(n, bit)| bit.axis as usize == axis && thread >> n & 1 == 1)
                        .fold(0, |at, (_, bit)| at | 1i64 << bit.bit);
                    of_thread | layout.register_part(register, axis)
                });
                all.insert(at.collect());
            }
        }
        all
    }

    #[test]
    fn every_element_has_an_owner() {
        for sides in [&[1][..], &[32], &[1024], &[3, 5], &[64, 128], &[1, 32, 256], &[2, 3, 4, 5]] {
            let shape = shape(sides);
            let padded: usize = sides.iter().map(|s| s.next_power_of_two()).product();
            for warps in [1, 4, 8] {
                for inner in 0..sides.len() {
                    let layout = Layout::blocked(&shape, inner, 8, warps);
                    assert_eq!(owned(&layout, &shape).len(), padded, "{layout}");
                }
                if sides.len() == 2 {
                    let layout = Layout::outer_product(&shape, 4, 4, warps);
                    assert_eq!(owned(&layout, &shape).len(), padded, "{layout}");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_registers_first() {
        let layout = Layout::blocked(&shape(&[4, 256]), 1, 4, 4);
        assert_eq!(layout.register_part(1, 1), 1);
        assert_eq!(layout.register_part(3, 1), 3);
        assert_eq!(layout.count(), 8);
    }

    #[test]
    fn reshapes_rename_bits() {
        let (from, to) = (shape(&[8, 16]), shape(&[4, 32]));
        let layout = Layout::blocked(&from, 1, 4, 1);
        let after = layout.reshaped(&from, &to).unwrap();
        assert_eq!(owned(&after, &to).len(), 128);
        assert_eq!(after.reshaped(&to, &from).unwrap(), layout);
        assert!(layout.reshaped(&shape(&[3, 4]), &shape(&[12])).is_none());
        assert!(
            Layout::blocked(&shape(&[3]), 0, 1, 1)
                .reshaped(&shape(&[3]), &shape(&[3, 1]))
                .is_some()
        );
    }

    #[test]
    fn parts_keep_registers() {
        let layout = Layout::blocked(&shape(&[64, 64]), 1, 4, 1);
        let (part, kept) = layout.aligned_part(0, 32, 32).unwrap();
        assert_eq!(part.count() as usize, kept.len());
        assert!(kept.iter().all(|&r| layout.register_part(r, 0) >= 32));
        assert!(layout.aligned_part(1, 0, 4).is_none());
    }

    #[test]
    fn sums_drop_their_axis() {
        let layout = Layout::blocked(&shape(&[4, 256]), 1, 4, 4);
        let row = layout.without(1);
        assert_eq!(owned(&row, &shape(&[4])).len(), 4);
        assert_eq!(layout.before_broadcast(&shape(&[4, 1]), &shape(&[4, 256])).without(1), row);
    }
}
