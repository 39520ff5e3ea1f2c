//! Reviewed Metal source of a handful of kernels. A change of the emitter shows here; `cargo insta review` takes it over.
//! What the source computes is tested in `msl_on_cpu.rs`.

use metile_compiler::gpu::{Target, class, lower, metal};
use metile_compiler::{Options, optimize};
use metile_device::{Limits, verify};
use metile_kernels::registry;

/// The Metal source of a kernel's first instance with these parameters.
fn source(name: &str, settings: &[(&str, &str)], general: bool) -> String {
    let entry = registry::find(name).expect("a kernel of the library");
    let definition = entry.definition(None, settings).expect("an instance");
    let kernel = metile::ir::tile::verify::verify(definition.trace().expect("traces"));
    let kernel =
        optimize(kernel.expect("verifies"), &Options::default()).expect("optimizes").kernel;
    let classes = match general {
        true => class::general(kernel.kernel()),
        false => class::round(kernel.kernel()),
    };
    let program = lower(&kernel, &Target::APPLE, &classes).expect("lowers");
    let limits =
        Limits { shared_bytes: Target::APPLE.shared_bytes, threads: Target::APPLE.threads };
    let program = verify(program, &limits).expect("verifies");
    metal::emit(&program).expect("is emitted").source
}

macro_rules! sources {
    ($($test:ident: $kernel:literal [$($settings:tt)*] $general:literal;)*) => {$(
        #[test]
        fn $test() {
            insta::assert_snapshot!(source($kernel, &[$($settings)*], $general));
        }
    )*};
}
sources! {
    elementwise: "map_tiles" [] false;
    elementwise_of_any_strides: "map_tiles" [] true;
    softmax: "softmax_row" [] false;
    rms_norm: "rms_norm_row" [] false;
    transpose: "transpose_tiles" [] false;
    argmax: "argmax_row" [] false;
}
