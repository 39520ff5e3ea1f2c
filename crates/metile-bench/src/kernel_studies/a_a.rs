//! `a-a`: the same kernel as both arms. What it finds is what the harness itself adds.

use super::device_arm::{DeviceArm, Timing, add_fingerprint, described, tensor};
use super::harness::{Fresh, Grid, KernelStudy, Open, OpenArm, Workload, draw};
use super::{device_boundary, oracles, time_metric, wall};
use crate::random::Random;
use crate::schema::{
    Acceptance, Arm, Comparison, Declaration, Estimator, Fingerprints, GateClass, Role, Work,
};
use crate::study::{
    CasePlan, Entry, OpenError, OptionKind, OptionSpec, Refusal, Repeats, Setup, Study,
};
use metile::{Device, Tensor};
use metile_kernels as kernels;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "pairs",
        kind: OptionKind::Count,
        default: Some("30"),
        help: "Pairs of each case; at least 20",
    },
    OptionSpec {
        name: "rows",
        kind: OptionKind::Count,
        default: Some("256"),
        help: "Rows of the RMSNorm",
    },
    OptionSpec {
        name: "cols",
        kind: OptionKind::Count,
        default: Some("1024"),
        help: "Columns of the RMSNorm",
    },
    OptionSpec {
        name: "side",
        kind: OptionKind::Count,
        default: Some("256"),
        help: "Side of the matrix product",
    },
];

/// The catalogue's entry.
pub const ENTRY: Entry =
    Entry { declaration: || declaration(30), options: OPTIONS, open: Ok(open) };

/// Pairs below which an A/A says too little.
const LEAST_PAIRS: u64 = 20;
const ARMS: [&str; 2] = ["metile-a", "metile-b"];

fn declaration(pairs: u64) -> Declaration {
    Declaration {
        name: "a-a".to_owned(),
        title: "the same kernel as both arms, once per device and session".to_owned(),
        workload: "RMSNorm of [rows, cols] and a product of square matrices in float32, each arm with tensors \
                   and a recorded list of its own"
            .to_owned(),
        comparison: Comparison::SameWeightsAndFormat,
        gate_class: GateClass::Outputs,
        gate: "every arm's output against a reference in float64 and against the other's, with fresh inputs; \
               again after every trial"
            .to_owned(),
        boundary: device_boundary(),
        metrics: vec![time_metric(wall("replay of a recorded list, until all of it is done"))],
        warmups: 2,
        pairs,
        estimator: Estimator::MedianOfPairedRatios,
        acceptance: Acceptance::IntervalHolds { metric: "time".to_owned(), value: 1.0 },
        disclosures: vec![
            "both arms are the same code: a ratio other than 1.00 is the harness's or the machine's"
                .to_owned(),
        ],
    }
}

struct SameTwice {
    device: Device,
    pairs: u64,
    rows: usize,
    cols: usize,
    side: usize,
}

fn open(setup: &Setup) -> Result<Box<dyn Study>, OpenError> {
    let pairs = setup.chosen.count("pairs")?;
    if pairs < LEAST_PAIRS {
        return Err(OpenError::Missing(format!(
            "an A/A has at least {LEAST_PAIRS} pairs, not {pairs}"
        )));
    }
    let size = |name| setup.chosen.count(name).map(|n| n as usize);
    Ok(Box::new(KernelStudy::new(SameTwice {
        device: setup.device.clone(),
        pairs,
        rows: size("rows")?,
        cols: size("cols")?,
        side: size("side")?,
    })))
}

const NORM: &str = "rms_norm";
const PRODUCT: &str = "gemm";

impl Workload for SameTwice {
    fn declaration(&self) -> Declaration {
        declaration(self.pairs)
    }

    fn arms(&mut self) -> Result<Vec<Arm>, Refusal> {
        let arm = |name, role| {
            let what = "prepared kernels of the library over tensors of their own";
            described(&self.device, name, role, what, "float32", "float32")
        };
        Ok(vec![arm(ARMS[0], Role::Baseline), arm(ARMS[1], Role::Candidate)])
    }

    fn cases(&mut self) -> Result<Vec<CasePlan>, Refusal> {
        let plan = |name: &str, shape: [usize; 2], work| CasePlan {
            name: name.to_owned(),
            series: name.to_owned(),
            parameters: [
                ("rows".to_owned(), shape[0].into()),
                ("cols".to_owned(), shape[1].into()),
            ]
            .into(),
            work,
            gate_class: GateClass::Outputs,
            arms: ARMS.map(str::to_owned).into(),
            absent: Vec::new(),
            repeats: Repeats::Seconds(5e-3),
        };
        let (n, side) = ((self.rows * self.cols) as u64, self.side as u64);
        Ok(vec![
            plan(
                NORM,
                [self.rows, self.cols],
                Work { distinct_read_bytes: Some(4 * n), ..Work::default() },
            ),
            plan(
                PRODUCT,
                [self.side, self.side],
                Work {
                    flop: Some(2 * side.pow(3)),
                    distinct_read_bytes: Some(8 * side.pow(2)),
                    ..Work::default()
                },
            ),
        ])
    }

    fn open(&mut self, case: &CasePlan) -> Result<Open, Refusal> {
        if case.name == NORM { self.norm() } else { self.product() }
    }

    fn fingerprints(&mut self) -> Result<Fingerprints, Refusal> {
        let mut all = Fingerprints::default();
        let zeros = |shape| Tensor::<f32, 2>::zeros(&self.device, shape).map_err(super::broken);
        let (x, mut out) = (zeros([self.rows, self.cols])?, zeros([self.rows, self.cols])?);
        let w = tensor::<f32, 1>(&self.device, [self.cols], &vec![1.0; self.cols])?;
        add_fingerprint(&mut all, &self.device, NORM, kernels::rms_norm(&x, &w, &mut out, EPS))?;
        let side = [self.side, self.side];
        let (a, b, mut out) = (zeros(side)?, zeros(side)?, zeros(side)?);
        add_fingerprint(&mut all, &self.device, PRODUCT, kernels::gemm(&a, &b, &mut out))?;
        Ok(all)
    }
}

const EPS: f32 = 1e-5;

impl SameTwice {
    fn norm(&self) -> Result<Open, Refusal> {
        let (rows, cols) = (self.rows, self.cols);
        let weight = draw(&mut Random::named(0, &["weight"]), cols, 1.0, Grid::F32);
        let arm = |name: &str| -> Result<OpenArm, Refusal> {
            let x = tensor::<f32, 2>(&self.device, [rows, cols], &vec![0.0; rows * cols])?;
            let w = tensor::<f32, 1>(&self.device, [cols], &weight)?;
            let mut out = tensor::<f32, 2>(&self.device, [rows, cols], &vec![0.0; rows * cols])?;
            let (fresh, kept, written) = (x.raw().clone(), w.raw().clone(), out.raw().clone());
            let arm = DeviceArm::new(
                &self.device,
                vec![fresh],
                vec![kept],
                vec![written],
                Timing::Prepared,
                Box::new(move |list| list.record(kernels::rms_norm(&x, &w, &mut out, EPS))),
            )?;
            Ok(open_arm(name, arm, 1e-5))
        };
        Ok(Open {
            fresh: vec![Fresh { name: "x", elements: rows * cols, scale: 1.0, grid: Grid::F32 }],
            rows,
            cols,
            arms: vec![arm(ARMS[0])?, arm(ARMS[1])?],
            oracle: Box::new(oracles::RmsNorm { weight: weight.clone(), eps: f64::from(EPS) }),
            gate_rows: rows,
            further: None,
        })
    }

    fn product(&self) -> Result<Open, Refusal> {
        let side = self.side;
        let arm = |name: &str| -> Result<OpenArm, Refusal> {
            let matrix = || tensor::<f32, 2>(&self.device, [side, side], &vec![0.0; side * side]);
            let (a, b, mut out) = (matrix()?, matrix()?, matrix()?);
            let (fresh, written) = (vec![a.raw().clone(), b.raw().clone()], out.raw().clone());
            let arm = DeviceArm::new(
                &self.device,
                fresh,
                Vec::new(),
                vec![written],
                Timing::Prepared,
                Box::new(move |list| list.record(kernels::gemm(&a, &b, &mut out))),
            )?;
            Ok(open_arm(name, arm, 1e-4))
        };
        let scale = 1.0 / (side as f32).sqrt();
        let fresh = |name, scale| Fresh { name, elements: side * side, scale, grid: Grid::F32 };
        Ok(Open {
            fresh: vec![fresh("a", 1.0), fresh("b", scale)],
            rows: side,
            cols: side,
            arms: vec![arm(ARMS[0])?, arm(ARMS[1])?],
            oracle: Box::new(oracles::Gemm { inner: side, cols: side }),
            gate_rows: side.min(256),
            further: None,
        })
    }
}

fn open_arm(name: &str, arm: DeviceArm, tolerance: f64) -> OpenArm {
    OpenArm {
        name: name.to_owned(),
        arm: Box::new(arm),
        policy: oracles::LATE,
        rtol: tolerance,
        atol: tolerance,
    }
}
