//! What the tests of emitted Metal source share.

/// A word that points to the elements of `memory`.
pub fn pointer<T>(memory: &mut [T]) -> u64 {
    memory.as_mut_ptr().expose_provenance() as u64
}

/// Compiles `program` and runs it under several seeds, each on words that `words` makes afresh; `look` is what there is to
/// see afterwards and must always be the same.
pub fn run<S, R: PartialEq + std::fmt::Debug>(
    program: &metile_device::Program,
    blocks: u64,
    start: impl Fn() -> S,
    words: impl Fn(&mut S) -> Vec<u64>,
    look: impl Fn(&S) -> R,
) -> Result<R, metile_runtime::msl_on_cpu::MslError> {
    let msl = metile_compiler::gpu::metal::emit(program).expect("is emitted");
    let kernel = metile_runtime::msl_on_cpu::Kernel::new(msl)?;
    let mut first = None;
    for seed in 0..6 {
        let mut state = start();
        let passed = words(&mut state);
        // SAFETY: the tests' words point into `state`, at as much as their programs touch.
        unsafe { kernel.launch(&passed, blocks, seed) }?;
        let seen = look(&state);
        match &first {
            None => first = Some(seen),
            Some(first) => assert_eq!(&seen, first, "seed {seed}"),
        }
    }
    Ok(first.expect("ran"))
}
