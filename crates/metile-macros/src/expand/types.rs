//! Scalar type names stand for traced scalars where a variable, parameter or result is declared.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Type, parse_quote};

const DTYPES: [&str; 12] =
    ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32"];

/// Whether the type is the name of a dtype.
pub fn is_dtype(ty: &Type) -> bool {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            path.path.get_ident().is_some_and(|ident| DTYPES.contains(&ident.to_string().as_str()))
        }
        Type::Paren(inner) => is_dtype(&inner.elem),
        _ => false,
    }
}

/// The type with dtype names replaced by traced scalars, also within tuples and arrays; `None` if
/// there is none.
pub fn traced(ty: &Type) -> Option<Type> {
    if is_dtype(ty) {
        return Some(parse_quote!(::metile::lang::Tile<#ty>));
    }
    match ty {
        Type::Tuple(tuple) => {
            let parts: Vec<Option<Type>> = tuple.elems.iter().map(traced).collect();
            if parts.iter().all(Option::is_none) {
                return None;
            }
            let elems = tuple.elems.iter().zip(parts).map(|(old, new)| new.unwrap_or(old.clone()));
            Some(parse_quote!((#(#elems,)*)))
        }
        Type::Array(array) => {
            let elem = traced(&array.elem)?;
            let len = &array.len;
            Some(parse_quote!([#elem; #len]))
        }
        Type::Paren(inner) => traced(&inner.elem),
        _ => None,
    }
}

/// What a reference parameter is inside a kernel.
pub fn parameter(ty: &Type) -> TokenStream {
    quote!(<#ty as ::metile::lang::KernelParam>::Traced)
}
