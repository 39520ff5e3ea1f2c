use super::*;

const VECTOR: [f32; 4] = [0.3, 0.1, 0.1, 0.5];

fn logits() -> Vec<f32> {
    VECTOR.iter().map(|p| p.ln()).collect()
}

fn settings() -> Settings {
    Settings { temperature: 1.0, ..Settings::default() }
}

/// Every id that many draws give.
fn drawn(settings: Settings, logits: &[f32]) -> Vec<u32> {
    let mut sampler = Sampler::new(settings).unwrap();
    let mut ids: Vec<u32> =
        (0..2000).map(|_| sampler.sample(&mut logits.to_vec(), &[]).unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn temperature_zero_is_the_lowest_id_of_the_greatest_logit() {
    let mut sampler = Sampler::new(Settings::default()).unwrap();
    assert_eq!(sampler.sample(&mut [1.0, 3.0, 3.0, 2.0], &[]).unwrap(), 1);
    assert_eq!(sampler.sample(&mut [f32::NEG_INFINITY, -3.0], &[]).unwrap(), 1);
    assert_eq!(sampler.sample(&mut [-0.0, 0.0], &[]).unwrap(), 0);
}

#[test]
fn a_tiny_temperature_is_the_greatest_logit_without_overflow() {
    for temperature in [1e-8, f32::MIN_POSITIVE, 1e-45] {
        let logits = [f32::MIN, 3.0, 2.999, f32::MAX];
        assert_eq!(drawn(Settings { temperature, ..settings() }, &logits), [3]);
        assert_eq!(drawn(Settings { temperature, ..settings() }, &logits[..3]), [1]);
    }
    assert_eq!(drawn(Settings { temperature: f32::MAX, ..settings() }, &logits()), [0, 1, 2, 3]);
}

#[test]
fn settings_outside_their_range_are_refused_by_name() {
    let mut wrong = Vec::new();
    for x in [-1.0, f32::NAN, f32::INFINITY] {
        wrong.push(("temperature", Settings { temperature: x, ..settings() }));
    }
    for x in [-0.1, 1.1, f32::NAN] {
        wrong.push(("top-p", Settings { top_p: x, ..settings() }));
        wrong.push(("min-p", Settings { min_p: x, ..settings() }));
    }
    for x in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        wrong.push(("repetition penalty", Settings { repetition_penalty: x, ..settings() }));
    }
    for (name, settings) in wrong {
        let error = Sampler::new(settings).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn top_p_keeps_the_fewest_that_reach_it_and_always_the_best() {
    for (top_p, ids) in [
        (0.0, vec![3]),
        (1e-3, vec![3]),
        (0.5, vec![3]),
        (0.51, vec![0, 3]),
        (0.8, vec![0, 3]),
        // Of the two equal ones the lower id comes first.
        (0.85, vec![0, 1, 3]),
        (1.0, vec![0, 1, 2, 3]),
    ] {
        assert_eq!(drawn(Settings { top_p, ..settings() }, &logits()), ids, "top-p {top_p}");
    }
}

#[test]
fn top_p_of_a_large_flat_vocabulary_counts_every_token() {
    let flat = vec![0.5; 10_000];
    let mut candidates: Vec<(f32, u32)> = flat.iter().copied().zip(0..).collect();
    filter::top_p(&mut candidates, 0.75);
    assert_eq!(candidates.len(), 7_500);
    assert!(candidates.iter().map(|&(_, id)| id).eq(0..7_500));
}

#[test]
fn top_k_and_min_p_keep_the_most_likely() {
    assert_eq!(drawn(Settings { top_k: 1, ..settings() }, &logits()), [3]);
    assert_eq!(drawn(Settings { top_k: 3, ..settings() }, &logits()), [0, 1, 3]);
    assert_eq!(drawn(Settings { top_k: 9, ..settings() }, &logits()), [0, 1, 2, 3]);
    assert_eq!(drawn(Settings { min_p: 0.5, ..settings() }, &logits()), [0, 3]);
    assert_eq!(drawn(Settings { min_p: 1.0, ..settings() }, &logits()), [3]);
    assert_eq!(drawn(Settings { top_k: 3, top_p: 0.85, ..settings() }, &logits()), [0, 3]);
}

#[test]
fn draws_follow_the_probabilities_and_the_seed() {
    let draw = |seed| {
        let mut sampler = Sampler::new(Settings { seed, ..settings() }).unwrap();
        (0..20_000).map(|_| sampler.sample(&mut logits(), &[]).unwrap()).collect::<Vec<u32>>()
    };
    let ids = draw(7);
    assert_eq!(ids, draw(7));
    assert_ne!(ids, draw(8));
    for (id, p) in (0u32..).zip(VECTOR) {
        let share = ids.iter().filter(|&&drawn| drawn == id).count() as f32 / ids.len() as f32;
        assert!((share - p).abs() < 0.015, "token {id}: {share} instead of {p}");
    }
}

#[test]
fn logits_that_nothing_can_be_drawn_from_are_errors() {
    for temperature in [0.0, 1.0] {
        let mut sampler = Sampler::new(Settings { temperature, ..settings() }).unwrap();
        for (mut logits, word) in [
            (vec![1.0, f32::NAN], "token 1 is NaN"),
            (vec![f32::INFINITY, 0.0], "token 0 is inf"),
            (vec![f32::NEG_INFINITY; 3], "none of the 3"),
            (vec![], "none of the 0"),
        ] {
            let error = sampler.sample(&mut logits, &[]).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}

#[test]
fn the_repetition_penalty_is_applied_once_per_token() {
    let mut sampler =
        Sampler::new(Settings { repetition_penalty: 2.0, ..Settings::default() }).unwrap();
    let mut logits = [4.0, -1.0, 3.0];
    // Ids without a logit are none of its business.
    assert_eq!(sampler.sample(&mut logits, &[0, 0, 1, 0, 99]).unwrap(), 2);
    assert_eq!(logits, [2.0, -2.0, 3.0]);
}

#[test]
fn the_generator_is_splitmix64() {
    // Values of the authors' code for this seed.
    let mut random = SplitMix64::new(1_234_567);
    assert_eq!(random.next(), 6_457_827_717_110_365_317);
    assert_eq!(random.next(), 3_203_168_211_198_807_973);
    assert_eq!(random.next(), 9_817_491_932_198_370_423);
}
