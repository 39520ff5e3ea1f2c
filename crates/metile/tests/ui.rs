//! Mistakes that the macro or Rust's types see, with the message an author reads.
//!
//! `TRYBUILD=overwrite cargo nextest run -p metile --test ui` rewrites the expected texts.

#[test]
fn mistakes_are_errors_at_their_place() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/macro/*.rs");
    cases.compile_fail("tests/ui/types/*.rs");
}
