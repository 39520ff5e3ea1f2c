//! What the tests of emitted Metal source share.

/// The program, verified for Apple's limits.
pub fn verified(program: metile_device::Program) -> metile_device::Verified {
    let target = metile_compiler::gpu::Target::APPLE;
    let limits =
        metile_device::Limits { shared_bytes: target.shared_bytes, threads: target.threads };
    match metile_device::verify(program, &limits) {
        Ok(verified) => verified,
        Err(errors) => panic!("{errors:?}"),
    }
}

/// A word that points to the elements of `memory`.
pub fn pointer<T>(memory: &mut [T]) -> u64 {
    memory.as_mut_ptr().expose_provenance() as u64
}

/// Compiles `program` and runs it under several seeds, each on words that `words` makes afresh; `look` is what there is to
/// see afterwards and must always be the same.
pub fn run<S, R: PartialEq + std::fmt::Debug>(
    program: metile_device::Program,
    blocks: u64,
    start: impl Fn() -> S,
    words: impl Fn(&mut S) -> Vec<u64>,
    look: impl Fn(&S) -> R,
) -> Result<R, metile_runtime::msl_on_cpu::MslError> {
    let msl = metile_compiler::gpu::metal::emit(&verified(program)).expect("is emitted");
    run_source(msl, blocks, start, words, look)
}

/// As [`run`], for a source.
pub fn run_source<S, R: PartialEq + std::fmt::Debug>(
    msl: metile_compiler::gpu::metal::Msl,
    blocks: u64,
    start: impl Fn() -> S,
    words: impl Fn(&mut S) -> Vec<u64>,
    look: impl Fn(&S) -> R,
) -> Result<R, metile_runtime::msl_on_cpu::MslError> {
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
