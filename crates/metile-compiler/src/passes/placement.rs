//! Where operations and regions are, for passes that move or remove them.

use metile_ir::tile::{Definition, Kernel, OpId, RegionId, Value};
use std::collections::HashMap;

/// Which region each operation is in, and which operation each region belongs to.
pub(super) struct Placement {
    region_of: HashMap<OpId, RegionId>,
    owner_of: HashMap<RegionId, OpId>,
}

impl Placement {
    pub fn of(kernel: &Kernel) -> Placement {
        let mut placement = Placement { region_of: HashMap::new(), owner_of: HashMap::new() };
        placement.add(kernel, kernel.body);
        for id in kernel.walk(kernel.body) {
            for &region in &kernel.ops[id].regions {
                placement.owner_of.insert(region, id);
                placement.add(kernel, region);
            }
        }
        placement
    }

    fn add(&mut self, kernel: &Kernel, region: RegionId) {
        self.region_of.extend(kernel.regions[region].ops.iter().map(|&op| (op, region)));
    }

    pub fn region_of(&self, op: OpId) -> Option<RegionId> {
        self.region_of.get(&op).copied()
    }
    pub fn owner_of(&self, region: RegionId) -> Option<OpId> {
        self.owner_of.get(&region).copied()
    }

    /// The operation that `region` belongs to, and those around it, innermost first.
    pub fn owners(&self, region: RegionId) -> impl Iterator<Item = OpId> + '_ {
        std::iter::successors(self.owner_of(region), |&op| {
            self.region_of(op).and_then(|region| self.owner_of(region))
        })
    }

    /// Whether `value` is made within a region of `op`.
    pub fn is_within(&self, kernel: &Kernel, value: Value, op: OpId) -> bool {
        let region = match kernel.values[value].definition {
            Definition::Parameter(_) => None,
            Definition::Argument(region, _) => Some(region),
            Definition::Result(made_by, _) => self.region_of(made_by),
        };
        region.is_some_and(|region| self.owners(region).any(|owner| owner == op))
    }
}
