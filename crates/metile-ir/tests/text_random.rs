//! Random programs print, and read back as the same program.

use metile_ir::random::{Choices, Limits, program};
use metile_ir::tile::parse::parse;
use metile_ir::tile::print::{Options, print};
use metile_ir::tile::same::same_program;

/// How many programs a run tries; `make test` says 10,000.
fn count() -> u64 {
    let asked = std::env::var("METILE_RANDOM_PROGRAMS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

#[test]
fn random_programs_read_back_the_same() {
    for seed in 0..count() {
        let kernel = program(&mut Choices::from_seed(seed, 600), &Limits::default());
        let text = print(&kernel, Options::default());
        let read = parse("random", &text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert_eq!(same_program(&kernel, &read), Ok(()), "seed {seed}\n{text}");
        assert_eq!(print(&read, Options::default()), text, "seed {seed}");
    }
}
