//! The declarations of kernel studies.

mod a_a;
mod layers;
mod paired_regression;
mod register_rmsnorm;
mod tensor_memory;
mod waiting;

use super::device_arm::Timing;
use super::op_study::{Source, StudyArm};
use super::ops::{Form, LATE};
use super::peers;
use crate::schema::{Boundary, Clock, Metric, Role};
use crate::study::{Entry, OpenError, OptionKind, OptionSpec, Setup};

/// All of them.
pub fn entries() -> Vec<Entry> {
    let mut all = vec![
        a_a::ENTRY,
        layers::MATCHED_MATRIX,
        layers::PROJECTION_WIDTH,
        layers::MODEL_SHAPES,
        tensor_memory::ENTRY,
        register_rmsnorm::ENTRY,
        paired_regression::ENTRY,
    ];
    all.extend(waiting::ENTRIES);
    all
}

const fn option(
    name: &'static str,
    kind: OptionKind,
    default: Option<&'static str>,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { name, kind, default, help }
}

/// Which libraries are measured.
const BASELINES: OptionSpec = option(
    "baselines",
    OptionKind::Texts,
    Some("mlx pytorch"),
    "Libraries, such as `mlx pytorch pytorch-compiled onnxruntime`; `none`: metile alone",
);

fn metric(name: &str, boundary: &str) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: "s".to_owned(),
        clock: Clock::Wall,
        boundary: boundary.to_owned(),
    }
}

fn boundary(includes: &[&str], excludes: &[&str]) -> Boundary {
    let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect();
    let always = [
        "drawing and copying inputs",
        "overwriting outputs with NaN",
        "reading and comparing outputs",
    ];
    Boundary {
        starts: "before the first launch of a sample".to_owned(),
        ends: "when the last launch of the sample is done and the host knows it".to_owned(),
        includes: words(includes),
        excludes: words(&[excludes, &always].concat()),
    }
}

/// The libraries that were asked for, as baselines.
fn libraries(setup: &Setup, what: &str) -> Result<Vec<StudyArm>, OpenError> {
    let peers = peers::start(setup.chosen.texts("baselines")?, setup.device.name())?;
    let arm = |peer: peers::Peer| StudyArm {
        name: peer.name.clone(),
        role: Role::Baseline,
        what: what.to_owned(),
        policy: LATE,
        source: Source::Peer(peer),
    };
    Ok(peers.into_iter().map(arm).collect())
}

/// metile as the candidate.
fn own(what: &str, timing: Timing) -> StudyArm {
    own_form("metile", Role::Candidate, what, Form::Library, timing)
}

fn own_form(name: &str, role: Role, what: &str, form: Form, timing: Timing) -> StudyArm {
    StudyArm {
        name: name.to_owned(),
        role,
        what: what.to_owned(),
        policy: LATE,
        source: Source::Own(form, timing),
    }
}

/// Counts as sizes.
fn sizes(setup: &Setup, name: &str) -> Result<Vec<usize>, OpenError> {
    let counts = setup.chosen.counts(name)?;
    let each = counts.into_iter().map(|n| {
        usize::try_from(n).map_err(|_| OpenError::Missing(format!("--{name}: {n} is too large")))
    });
    each.collect()
}

fn size(setup: &Setup, name: &str) -> Result<usize, OpenError> {
    let n = setup.chosen.count(name)?;
    usize::try_from(n).map_err(|_| OpenError::Missing(format!("--{name}: {n} is too large")))
}
