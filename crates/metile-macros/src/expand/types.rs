//! Scalar type names stand for traced scalars where a variable, parameter or result is declared.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::Type;
use syn::spanned::Spanned;

const DTYPES: [&str; 12] =
    ["bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32"];

/// Whether the type is the name of a dtype.
pub fn is_dtype(ty: &Type) -> bool {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            path.path.get_ident().is_some_and(|ident| DTYPES.contains(&ident.to_string().as_str()))
        }
        Type::Paren(inner) => is_dtype(&inner.elem),
        Type::Group(inner) => is_dtype(&inner.elem),
        _ => false,
    }
}

/// The type with dtype names replaced by traced scalars, also within tuples and arrays; `None` if
/// there is none.
pub fn traced(ty: &Type) -> Option<Type> {
    if is_dtype(ty) {
        return Some(Type::Verbatim(quote_spanned!(ty.span()=> ::metile::lang::Tile<#ty>)));
    }
    match ty {
        Type::Tuple(tuple) => {
            let mut tuple = tuple.clone();
            let mut found = false;
            for elem in &mut tuple.elems {
                if let Some(new) = traced(elem) {
                    *elem = new;
                    found = true;
                }
            }
            found.then_some(Type::Tuple(tuple))
        }
        Type::Array(array) => {
            let mut array = array.clone();
            *array.elem = traced(&array.elem)?;
            Some(Type::Array(array))
        }
        Type::Paren(inner) => traced(&inner.elem),
        Type::Group(inner) => traced(&inner.elem),
        _ => None,
    }
}

/// What a reference parameter is inside a kernel.
pub fn parameter(ty: &Type) -> TokenStream {
    quote_spanned!(ty.span()=> <#ty as ::metile::lang::KernelParam>::Traced)
}
