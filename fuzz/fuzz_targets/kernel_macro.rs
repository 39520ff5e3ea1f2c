//! Any tokens under `#[kernel]` and `#[kernel_fn]`: the macro answers with tokens that parse as
//! items, an error among them or not, and never panics.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/metile-macros/src/expand/mod.rs"]
mod expand;

use libfuzzer_sys::{Corpus, fuzz_target};
use proc_macro2::TokenStream;

fuzz_target!(|text: &str| -> Corpus {
    let Ok(item) = text.parse::<TokenStream>() else { return Corpus::Reject };
    for output in [
        expand::kernel(TokenStream::new(), item.clone()),
        expand::kernel("persistent".parse().unwrap_or_default(), item.clone()),
        expand::kernel_fn(TokenStream::new(), item),
    ] {
        let refused = output.to_string().contains("compile_error");
        // What is accepted is valid syntax; what is refused may repeat a broken item.
        if !refused && let Err(error) = syn::parse2::<syn::File>(output.clone()) {
            panic!("{error}\n{output}");
        }
    }
    Corpus::Keep
});
