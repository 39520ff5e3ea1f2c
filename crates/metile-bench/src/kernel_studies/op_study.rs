//! Studies of operations: a list of cases, each done by several arms.

use super::device_arm::{Timing, described};
use super::harness::{FurtherGates, KernelArm, Open, OpenArm, Workload};
use super::ops::{Form, Held, LATE, Op};
use super::peers::Peer;
use crate::gate::Differences;
use crate::schema::{Absent, Arm, Declaration, Fingerprints, GateClass, Role};
use crate::study::{CasePlan, Refusal, Repeats};
use metile::Device;
use std::collections::BTreeMap;

/// A case.
#[derive(Clone)]
pub struct OpCase {
    /// Its name.
    pub name: String,
    /// Its chart series.
    pub series: String,
    /// What is computed.
    pub op: Op,
}

/// Who computes.
pub enum Source {
    /// metile on the study's device.
    Own(Form, Timing),
    /// A library.
    Peer(Peer),
    /// metile in another process, described by it.
    Process(Peer, Box<Arm>),
}

/// An arm.
pub struct StudyArm {
    /// Its name.
    pub name: String,
    /// What it is in comparisons.
    pub role: Role,
    /// What it is, in words.
    pub what: String,
    /// Where it rounds.
    pub policy: &'static str,
    /// Who computes.
    pub source: Source,
}

/// Settings of a study that not all have.
#[derive(Clone, Copy, Debug)]
pub struct Extra {
    /// Launches of a sample.
    pub repeats: Repeats,
    /// Whether rows of BF16 are held to be the same bits as those rows one at a time.
    pub rows_alone: bool,
}

/// A study of operations.
pub struct OpStudy {
    /// The declaration with the numbers of this run.
    pub declaration: Declaration,
    /// Where metile's own arms compute.
    pub device: Device,
    /// The arms.
    pub arms: Vec<StudyArm>,
    /// The cases.
    pub cases: Vec<OpCase>,
    /// Further settings.
    pub extra: Extra,
    /// What ran.
    pub fingerprints: Fingerprints,
    held: Option<(String, Held)>,
}

impl OpStudy {
    /// A study of `cases` by `arms`.
    pub fn new(
        declaration: Declaration,
        device: &Device,
        arms: Vec<StudyArm>,
        cases: Vec<OpCase>,
        extra: Extra,
    ) -> OpStudy {
        OpStudy {
            declaration,
            device: device.clone(),
            arms,
            cases,
            extra,
            held: None,
            fingerprints: Fingerprints::default(),
        }
    }

    fn held(&mut self, op: Op) -> Result<Held, Refusal> {
        let key = op.weights_key();
        match &self.held {
            Some((known, held)) if *known == key => Ok(held.clone()),
            _ => {
                let held = op.hold()?;
                self.held = Some((key, held.clone()));
                Ok(held)
            }
        }
    }

    fn case(&self, name: &str) -> Result<OpCase, Refusal> {
        let found = self.cases.iter().find(|case| case.name == name).cloned();
        found.ok_or_else(|| Refusal::Broken(format!("no case `{name}`")))
    }

    /// Rows of metile's own output against the same rows computed one at a time.
    fn rows_alone(&self, op: Op, held: &Held) -> Option<FurtherGates> {
        let Op::Mlp { rows, hidden, storage: super::weights::Storage::BF16, .. } = op else {
            return None;
        };
        let own = self.arms.iter().find_map(|arm| match arm.source {
            Source::Own(form, _) => Some((arm.name.clone(), form)),
            _ => None,
        });
        let (name, form) = own.filter(|_| self.extra.rows_alone && rows > 1)?;
        let (device, held) = (self.device.clone(), held.clone());
        Some(Box::new(move |inputs, outputs| {
            let one = match op {
                Op::Mlp { hidden, intermediate, storage, .. } => {
                    Op::Mlp { rows: 1, hidden, intermediate, storage }
                }
                other => other,
            };
            let mut alone = one.on(&device, &held, form, Timing::Prepared)?;
            let together = outputs.iter().find(|(arm, _)| *arm == name).map(|(_, output)| output);
            let together = together.ok_or_else(|| Refusal::Broken("no output".to_owned()))?;
            let mut differences = Differences::bitwise();
            for row in [0, rows / 2, rows - 1] {
                alone.set_inputs(&[inputs[0][row * hidden..][..hidden].to_vec()])?;
                alone.poison()?;
                alone.launch("time", 1)?;
                let expected: Vec<f64> = alone.output()?.into_iter().map(f64::from).collect();
                let first = row * hidden;
                differences.add_all(
                    "output",
                    first as u64,
                    &expected,
                    &together[first..][..hidden],
                );
            }
            let what = "rows are the same bits as those rows one at a time";
            Ok(vec![differences.gate(what, GateClass::Outputs, &name, "itself, row by row")])
        }))
    }
}

/// Asks each library once for each kind of operation.
struct Abilities<'s> {
    arms: &'s [StudyArm],
    known: BTreeMap<(String, String), Option<String>>,
}

impl Abilities<'_> {
    /// Why an arm can't do an operation, if it can't.
    fn lacks(&mut self, arm: usize, op: Op) -> Result<Option<String>, Refusal> {
        let arm = &self.arms[arm];
        let (Source::Peer(peer) | Source::Process(peer, _)) = &arm.source else { return Ok(None) };
        let small = op.small();
        let key = (arm.name.clone(), format!("{small:?}"));
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let operation = small.sent(&small.hold()?, arm.policy)?;
        let lacks = peer.can(&operation).err();
        self.known.insert(key, lacks.clone());
        Ok(lacks)
    }
}

impl Workload for OpStudy {
    fn declaration(&self) -> Declaration {
        self.declaration.clone()
    }

    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        let (input, weights) = ("as the case says", "as the case says");
        let each = self.arms.iter().map(|arm| match &arm.source {
            Source::Own(..) => {
                described(&self.device, &arm.name, arm.role, &arm.what, input, weights)
            }
            Source::Peer(peer) => {
                let mut of = peer.described(arm.role, &arm.what, input, weights);
                of.name.clone_from(&arm.name);
                of.settings.insert("rounding".to_owned(), arm.policy.to_owned());
                of
            }
            Source::Process(_, described) => (**described).clone(),
        });
        Ok(each.collect())
    }

    fn cases(&mut self) -> Result<Vec<CasePlan>, Refusal> {
        let mut abilities = Abilities { arms: &self.arms, known: BTreeMap::new() };
        let mut plans = Vec::new();
        for case in &self.cases {
            let (mut arms, mut absent) = (Vec::new(), Vec::new());
            for (n, arm) in self.arms.iter().enumerate() {
                match abilities.lacks(n, case.op)? {
                    None => arms.push(arm.name.clone()),
                    Some(reason) => absent.push(Absent { arm: arm.name.clone(), reason }),
                }
            }
            plans.push(CasePlan {
                name: case.name.clone(),
                series: case.series.clone(),
                parameters: case.op.parameters(),
                work: case.op.work(),
                gate_class: GateClass::Outputs,
                arms,
                absent,
                repeats: self.extra.repeats,
            });
        }
        Ok(plans)
    }

    fn open(&mut self, plan: &CasePlan) -> Result<Open, Refusal> {
        let OpCase { op, name, .. } = self.case(&plan.name)?;
        let held = self.held(op)?;
        let (rtol, atol) = op.tolerance();
        let mut arms = Vec::new();
        for arm in self.arms.iter().filter(|arm| plan.arms.contains(&arm.name)) {
            let (computes, policy): (Box<dyn KernelArm>, _) = match &arm.source {
                Source::Own(form, timing) => {
                    let own = op.on(&self.device, &held, *form, *timing)?;
                    own.add_fingerprints(&mut self.fingerprints, &format!("{name}/{}", arm.name));
                    (Box::new(own), LATE)
                }
                Source::Peer(peer) | Source::Process(peer, _) => {
                    (Box::new(peer.arm(&op.sent(&held, arm.policy)?)?), arm.policy)
                }
            };
            arms.push(OpenArm { name: arm.name.clone(), arm: computes, policy, rtol, atol });
        }
        let [rows, cols] = op.output();
        Ok(Open {
            fresh: op.fresh(),
            rows,
            cols,
            arms,
            oracle: op.oracle(&held),
            gate_rows: op.gate_rows(),
            further: self.rows_alone(op, &held),
        })
    }

    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        Ok(self.fingerprints.clone())
    }
}
