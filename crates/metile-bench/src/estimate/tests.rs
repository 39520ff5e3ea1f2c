use super::*;
use crate::random::Random;

const A: [f64; 3] = [10.0, 20.0, 30.0];
const B: [f64; 3] = [30.0, 10.0, 20.0];

fn zip(a: &[f64], b: &[f64]) -> Vec<(f64, f64)> {
    a.iter().copied().zip(b.iter().copied()).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-12
}

#[test]
fn estimators_answer_different_questions() {
    let pairs = zip(&A, &B);
    assert!(close(ratio(&pairs, Estimator::MedianOfPairedRatios).unwrap(), 1.5));
    assert!(close(ratio(&pairs, Estimator::RatioOfMedians).unwrap(), 1.0));
    let each: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    assert!(close(geometric_mean(&each).unwrap(), 1.0));
    // Of {0.5, 2} the middle is 1, in both directions.
    assert!(close(ratio(&[(1.0, 2.0), (2.0, 1.0)], Estimator::MedianOfPairedRatios).unwrap(), 1.0));
}

#[test]
fn swapping_the_arms_gives_the_inverse_and_the_inverse_interval() {
    let mut random = Random::new(5);
    let time = |random: &mut Random| 1.5 + f64::from(random.signed_unit());
    for estimator in [Estimator::MedianOfPairedRatios, Estimator::RatioOfMedians] {
        for n in [1, 2, 5, 9, 16, 25] {
            let pairs: Vec<(f64, f64)> =
                (0..n).map(|_| (time(&mut random), time(&mut random))).collect();
            let swapped: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let (r, s) = (ratio(&pairs, estimator), ratio(&swapped, estimator));
            assert!(close(r.unwrap() * s.unwrap(), 1.0));
            let interval = |p: &[(f64, f64)]| interval(p, estimator, Random::new(3));
            match (interval(&pairs), interval(&swapped)) {
                (Some(i), Some(j)) => {
                    assert!(close(i.low * j.high, 1.0) && close(i.high * j.low, 1.0), "{n}");
                    assert!(i.low <= r.unwrap() && r.unwrap() <= i.high);
                }
                (None, None) => assert!(n < 15),
                _ => panic!("an interval in one direction only"),
            }
        }
    }
}

#[test]
fn intervals_have_to_be_earned() {
    let pairs = |n: usize| -> Vec<(f64, f64)> { (1..=n).map(|i| (i as f64, 1.0)).collect() };
    let of = |n, estimator| interval(&pairs(n), estimator, Random::new(0));
    assert!(of(5, Estimator::MedianOfPairedRatios).is_none());
    assert!(of(8, Estimator::MedianOfPairedRatios).is_none());
    let nine = of(9, Estimator::MedianOfPairedRatios).unwrap();
    // P(Binomial(9, ½) < 2) = 10/512.
    assert!(close(nine.coverage, 1.0 - 20.0 / 512.0));
    assert!(close(nine.low, 2.0) && close(nine.high, 8.0));
    let twenty_five = of(25, Estimator::MedianOfPairedRatios).unwrap();
    assert!(close(twenty_five.low, 8.0) && close(twenty_five.high, 18.0));
    assert!(twenty_five.coverage >= 0.95);
    assert!(of(14, Estimator::RatioOfMedians).is_none());
    assert!(of(15, Estimator::RatioOfMedians).is_some());
}

fn case(trials: &[(u64, &str, f64)]) -> Case {
    let trial = |&(pair, arm, time): &(u64, &str, f64)| crate::schema::Trial {
        pair,
        arm: arm.to_owned(),
        values: [("time".to_owned(), time)].into(),
        repeats: 1,
        inputs_sha256: String::new(),
        poisoned: true,
        verified: BTreeMap::new(),
        output_sequence: None,
    };
    Case {
        name: "c".to_owned(),
        series: "s".to_owned(),
        parameters: [("chunk".to_owned(), 128.into())].into(),
        work: crate::schema::Work::default(),
        gate_class: crate::schema::GateClass::Outputs,
        arms: vec!["a".to_owned(), "b".to_owned()],
        absent: Vec::new(),
        gates: Vec::new(),
        warmups: 1,
        warmup_runs: Vec::new(),
        trials: trials.iter().map(trial).collect(),
        medians: Vec::new(),
        summaries: Vec::new(),
    }
}

#[test]
fn times_that_are_no_times_are_refused() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = pairs(&case(&[(0, "a", bad), (0, "b", 1.0)]), "a", "b", "time");
        assert!(matches!(refused, Err(EstimateError::NotPositive { .. })), "{bad}");
    }
}

#[test]
fn only_trials_of_one_pair_are_set_against_each_other() {
    let refused = pairs(&case(&[(0, "a", 1.0), (1, "b", 1.0)]), "a", "b", "time");
    assert!(matches!(refused, Err(EstimateError::Unpaired { .. })));
    let refused = pairs(&case(&[(0, "a", 1.0), (0, "b", 1.0), (0, "b", 2.0)]), "a", "b", "time");
    assert!(matches!(refused, Err(EstimateError::Twice { .. })));
}

#[test]
fn the_smaller_parameter_breaks_an_exact_tie() {
    let with = |name: &str, chunk: u64, time: f64| Case {
        name: name.to_owned(),
        parameters: [("chunk".to_owned(), chunk.into())].into(),
        ..case(&[(0, "a", time), (0, "b", 1.0)])
    };
    let chosen = |cases: &[Case]| select(cases, "a", "time", "chunk").unwrap().unwrap().case;
    assert_eq!(chosen(&[with("x", 256, 1.0), with("y", 128, 1.0), with("z", 64, 1.1)]), "y");
    assert_eq!(chosen(&[with("x", 256, 0.9), with("y", 128, 1.0)]), "x");
}

#[test]
fn a_mean_over_cases_needs_the_ratio_of_each() {
    let arm = |name: &str, role| Arm {
        name: name.to_owned(),
        role,
        what: String::new(),
        versions: BTreeMap::new(),
        toolchain: crate::schema::Toolchain { compiler: String::new(), path: String::new() },
        precision: crate::schema::Precision {
            input: String::new(),
            weights: String::new(),
            multiply: String::new(),
            accumulate: String::new(),
            relaxed: false,
            probed: String::new(),
        },
        threads: None,
        gate: crate::schema::GateClass::Outputs,
        settings: BTreeMap::new(),
    };
    let arms = [arm("a", Role::Baseline), arm("b", Role::Candidate)];
    let of = |name: &str, time: f64| {
        let mut case = Case { name: name.to_owned(), ..case(&[(0, "a", time), (0, "b", 1.0)]) };
        case.summaries = summaries(&case, &arms, Estimator::MedianOfPairedRatios, 0).unwrap();
        case
    };
    let mut cases = vec![of("x", 2.0), of("y", 8.0)];
    assert!(close(overall(&cases)[0].geometric_mean.value.unwrap(), 4.0));
    cases[1].summaries[0].ratio = Figure::missing("refused");
    assert!(overall(&cases)[0].geometric_mean.value.is_none());
    cases[1].summaries.clear();
    assert!(overall(&cases).is_empty());
}
