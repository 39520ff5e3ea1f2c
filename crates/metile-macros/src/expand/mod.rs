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

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
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
        let item = without_body(item);
        // What is too deep even so is better left out than handed on.
        let item = if limits::check(&item).is_ok() { item } else { TokenStream::new() };
        return with_item(&error, item);
    }
    let function: ItemFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(_) if !is_function(&item) => {
            let message = "`#[kernel]` and `#[kernel_fn]` go on functions";
            return with_item(&syn::Error::new(first_span(&item), message), item);
        }
        Err(error) => return with_item(&error, without_body(item)),
    };
    let (attributes, visibility, signature) =
        (function.attrs.clone(), function.vis.clone(), function.sig.clone());
    match make(function) {
        Ok(tokens) => tokens,
        Err(error) => with_item(
            &error,
            quote! {
                #(#attributes)*
                #[allow(unused, clippy::all)]
                #visibility #signature { ::core::unreachable!() }
            },
        ),
    }
}

fn with_item(error: &syn::Error, item: TokenStream) -> TokenStream {
    let mut tokens = error.to_compile_error();
    tokens.extend(item);
    tokens
}

fn is_function(item: &TokenStream) -> bool {
    item.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(word) if word == "fn"))
}

fn first_span(item: &TokenStream) -> Span {
    item.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

/// The same for a function that can't be parsed.
fn without_body(item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    if let Some(TokenTree::Group(body)) = tokens.last_mut()
        && body.delimiter() == Delimiter::Brace
    {
        *body = Group::new(Delimiter::Brace, quote!(::core::unreachable!()));
    }
    tokens.into_iter().collect()
}
