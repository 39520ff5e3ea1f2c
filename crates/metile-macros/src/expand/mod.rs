//! The rewriting, on `proc_macro2` tokens so that tests and the fuzz target can call it.

mod body;
mod control;
mod item;
mod limits;
mod operators;
mod refuse;
mod scope;
mod statements;
mod types;

use proc_macro2::TokenStream;
use quote::quote;
use syn::ItemFn;

/// `#[kernel(attribute)] item`.
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(item, |function| item::kernel(attribute, function))
}

/// `#[kernel_fn(attribute)] item`.
pub fn kernel_fn(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(item, |function| item::helper(attribute, function))
}

/// On an error the item stays, with its signature and a body that is never called, so that its
/// callers are not reported as well.
fn expand(
    item: TokenStream,
    make: impl FnOnce(ItemFn) -> Result<TokenStream, syn::Error>,
) -> TokenStream {
    if let Err(error) = limits::check(&item) {
        return error.into_compile_error();
    }
    let function: ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(error) => {
            let hint = "`#[kernel]` and `#[kernel_fn]` go on functions";
            let mut error = error;
            error.combine(syn::Error::new(error.span(), hint));
            return error.into_compile_error();
        }
    };
    let (attributes, visibility, signature) =
        (function.attrs.clone(), function.vis.clone(), function.sig.clone());
    match make(function) {
        Ok(tokens) => tokens,
        Err(error) => {
            let error = error.into_compile_error();
            quote! {
                #error
                #(#attributes)*
                #[allow(unused, clippy::all)]
                #visibility #signature { ::core::unreachable!() }
            }
        }
    }
}
