//! The function around the body: what a kernel and a helper expand to.

use super::body::Body;
use super::refuse::{conditional_code, is_cfg};
use super::types;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Block, Error, FnArg, GenericParam, Generics, Ident, ItemFn, Lifetime, Pat, PatType, Receiver,
    ReturnType, Signature, Type,
};

/// A parameter: its name, whether it is `mut`, its type.
struct Parameter {
    name: Ident,
    mutable: bool,
    ty: Type,
}

pub fn kernel(attribute: TokenStream, function: ItemFn) -> Result<TokenStream, Error> {
    let mut errors = Vec::new();
    let persistent = persistent(attribute, &mut errors);
    plain_function(&function.sig, "kernel", &mut errors);
    let ItemFn { attrs, vis, sig, block } = function;
    let parameters = parameters(&sig, &mut errors);
    if let ReturnType::Type(_, ty) = &sig.output
        && !matches!(&**ty, Type::Tuple(unit) if unit.elems.is_empty())
    {
        errors.push(Error::new(
            ty.span(),
            "a kernel returns nothing: it writes its results through `&mut Tensor` parameters",
        ));
    }
    for parameter in &parameters {
        if matches!(&parameter.ty, Type::Path(p) if p.path.is_ident("usize")) {
            errors.push(Error::new(
                parameter.ty.span(),
                "a kernel's run-time scalars are i32, i64, f32, …; make a compile-time size a const generic",
            ));
        }
    }
    let source = source_text(&block);
    let body = body(&parameters, *block, &mut errors);
    fail(errors)?;

    let Signature { ident, generics, .. } = &sig;
    let name = ident.to_string();
    let (declared, arguments, bounds) = split(generics);
    let labels = generic_labels(generics);
    let names: Vec<&Ident> = parameters.iter().map(|p| &p.name).collect();
    let types: Vec<&Type> = parameters.iter().map(|p| &p.ty).collect();
    let texts: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    let traced: Vec<TokenStream> = types.iter().map(|ty| types::parameter(ty)).collect();
    let call: Vec<Type> = types.iter().map(|ty| with_call_lifetime(ty)).collect();
    let made = types
        .iter()
        .zip(&texts)
        .map(|(ty, text)| quote_spanned!(ty.span()=> ::metile::lang::param::<#ty>(#text)));
    let bound = call.iter().zip(&names).map(
        |(ty, name)| quote_spanned!(ty.span()=> <#ty as ::metile::lang::KernelParam>::bind(#name)),
    );
    let docs = format!("The traced definition of [`{name}`](fn@{name}).");
    Ok(quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis struct #ident {}
        impl #ident {
            #[doc = #docs]
            #vis fn definition<#declared>() -> ::metile::lang::Definition #bounds {
                #[allow(unused_parens, unused_braces, clippy::all)]
                fn __metile_body<#declared>(#(#names: #traced),*) #bounds #body
                ::metile::lang::Definition::new(
                    ::metile::lang::KernelInfo {
                        name: #name,
                        module: ::core::module_path!(),
                        generics: ::std::vec![#(#labels),*],
                        source: #source,
                        persistent: #persistent,
                    },
                    || {
                        #(let #names = #made;)*
                        __metile_body::<#arguments>(#(#names),*)
                    },
                )
            }
        }
        #(#attrs)*
        #[allow(clippy::too_many_arguments)]
        #vis fn #ident<'call, #declared>(#(#names: #call),*) -> ::metile::lang::KernelCall<'call> #bounds {
            ::metile::lang::KernelCall::new(
                #ident::definition::<#arguments>(),
                ::std::vec![#(#bound),*],
            )
        }
    })
}

pub fn helper(attribute: TokenStream, function: ItemFn) -> Result<TokenStream, Error> {
    let mut errors = Vec::new();
    if !attribute.is_empty() {
        errors.push(Error::new(attribute.span(), "`#[kernel_fn]` takes no options"));
    }
    plain_function(&function.sig, "helper", &mut errors);
    let ItemFn { attrs, vis, sig, block } = function;
    let parameters = parameters(&sig, &mut errors);
    let source = source_text(&block);
    let mut body = body(&parameters, *block, &mut errors);
    fail(errors)?;

    let Signature { ident, generics, output, .. } = &sig;
    let where_clause = &generics.where_clause;
    let name = ident.to_string();
    let mut declared = Vec::new();
    let mut lifted = Vec::new();
    for Parameter { name, ty, .. } in &parameters {
        if types::is_dtype(ty) {
            declared.push(quote!(#name: impl ::metile::lang::IntoTile<#ty>));
            let span = name.span();
            lifted.push(quote_spanned!(span=> let #name = ::metile::lang::IntoTile::<#ty>::into_tile(#name);));
        } else if matches!(ty, Type::Reference(_)) {
            let ty = types::parameter(ty);
            declared.push(quote!(#name: #ty));
        } else {
            let ty = types::traced(ty).unwrap_or_else(|| ty.clone());
            declared.push(quote!(#name: #ty));
        }
    }
    let mut result = output.to_token_stream();
    if let ReturnType::Type(_, ty) = output
        && let Some(traced) = types::traced(ty)
    {
        result = quote!(-> #traced);
        body = quote_spanned!(ty.span()=> { ::metile::lang::lift_as::<#traced, _>(#body) });
    }
    Ok(quote! {
        #(#attrs)*
        #[track_caller]
        #[allow(unused_parens, unused_braces, clippy::all)]
        #vis fn #ident #generics (#(#declared),*) #result #where_clause {
            let __metile_frame = ::metile::lang::enter_helper(#name, #source);
            #(#lifted)*
            // A closure, because operations called in a `#[track_caller]` function itself would be
            // placed at its caller.
            (move || #body)()
        }
    })
}

fn persistent(attribute: TokenStream, errors: &mut Vec<Error>) -> bool {
    if attribute.is_empty() {
        return false;
    }
    match syn::parse2::<Ident>(attribute.clone()) {
        Ok(ident) if ident == "persistent" => true,
        _ => {
            let message = "the only option of `#[kernel]` is `persistent`";
            errors.push(Error::new(attribute.span(), message));
            false
        }
    }
}

fn plain_function(sig: &Signature, what: &str, errors: &mut Vec<Error>) {
    let mut refuse = |span: Option<Span>, word: &str| {
        if let Some(span) = span {
            errors.push(Error::new(span, format!("a {what} can't be {word}")));
        }
    };
    refuse(sig.asyncness.map(|t| t.span()), "async: it is traced on the spot");
    refuse(sig.unsafety.map(|t| t.span()), "unsafe: the language has nothing unsafe");
    refuse(sig.constness.map(|t| t.span()), "const: it is traced at run time");
    refuse(sig.abi.as_ref().map(|t| t.span()), "extern");
    refuse(sig.variadic.as_ref().map(|t| t.span()), "variadic");
    for parameter in &sig.generics.params {
        if let GenericParam::Lifetime(lifetime) = parameter {
            refuse(Some(lifetime.span()), "generic over lifetimes: leave them out");
        }
    }
}

fn parameters(sig: &Signature, errors: &mut Vec<Error>) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    for input in &sig.inputs {
        let (FnArg::Receiver(Receiver { attrs, .. }) | FnArg::Typed(PatType { attrs, .. })) = input;
        for attribute in attrs.iter().filter(|attribute| is_cfg(attribute)) {
            let message = "a parameter is there always: put `cfg` on the whole function";
            errors.push(Error::new(attribute.span(), message));
        }
        match input {
            FnArg::Receiver(this) => {
                errors
                    .push(Error::new(this.span(), "a kernel is a free function: it has no `self`"));
            }
            FnArg::Typed(typed) => match (&*typed.pat, &*typed.ty) {
                (Pat::Ident(pattern), ty)
                    if pattern.subpat.is_none() && pattern.by_ref.is_none() =>
                {
                    if let Type::ImplTrait(ty) = ty {
                        let message = "name the type with a generic parameter instead of `impl`";
                        errors.push(Error::new(ty.span(), message));
                    }
                    parameters.push(Parameter {
                        name: pattern.ident.clone(),
                        mutable: pattern.mutability.is_some(),
                        ty: ty.clone(),
                    });
                }
                (pattern, _) => {
                    errors
                        .push(Error::new(pattern.span(), "a kernel's parameters are plain names"));
                }
            },
        }
    }
    parameters
}

fn body(parameters: &[Parameter], mut block: Block, errors: &mut Vec<Error>) -> TokenStream {
    let mut body = Body::default();
    body.scopes.push();
    let mut cells = Vec::new();
    for parameter in parameters {
        body.scopes.declare(&parameter.name.to_string(), parameter.mutable);
        if parameter.mutable {
            let (name, text) = (&parameter.name, parameter.name.to_string());
            let span = name.span();
            cells.push(quote_spanned!(span=> let #name = ::metile::lang::cell(#text, #name);));
        }
    }
    conditional_code(&mut block, &mut body.errors);
    body.block(&mut block);
    errors.append(&mut body.errors);
    let block = block.to_token_stream();
    if cells.is_empty() { block } else { quote!({ #(#cells)* #block }) }
}

fn fail(errors: Vec<Error>) -> Result<(), Error> {
    match errors.into_iter().reduce(|mut all, next| {
        all.combine(next);
        all
    }) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Declarations and arguments of the generic parameters, without angle brackets, and the bounds.
fn split(generics: &Generics) -> (TokenStream, TokenStream, TokenStream) {
    let mut declared = TokenStream::new();
    let mut arguments = TokenStream::new();
    for parameter in &generics.params {
        match parameter {
            GenericParam::Type(ty) => {
                let (attrs, ident, colon, bounds) =
                    (&ty.attrs, &ty.ident, &ty.colon_token, &ty.bounds);
                declared.extend(quote!(#(#attrs)* #ident #colon #bounds,));
                arguments.extend(quote!(#ident,));
            }
            GenericParam::Const(constant) => {
                let (ident, ty) = (&constant.ident, &constant.ty);
                declared.extend(quote!(const #ident: #ty,));
                arguments.extend(quote!(#ident,));
            }
            GenericParam::Lifetime(_) => {}
        }
    }
    (declared, arguments, generics.where_clause.to_token_stream())
}

fn generic_labels(generics: &Generics) -> Vec<TokenStream> {
    let mut labels = Vec::new();
    for parameter in &generics.params {
        match parameter {
            GenericParam::Type(ty) => {
                let (ident, text) = (&ty.ident, ty.ident.to_string());
                labels.push(quote!((#text, ::metile::lang::type_label::<#ident>())));
            }
            GenericParam::Const(constant) => {
                let (ident, text) = (&constant.ident, constant.ident.to_string());
                labels.push(quote!((#text, ::std::format!("{:?}", #ident))));
            }
            GenericParam::Lifetime(_) => {}
        }
    }
    labels
}

/// A call borrows its arguments until it is dropped.
fn with_call_lifetime(ty: &Type) -> Type {
    match ty {
        Type::Reference(reference)
            if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident == "_") =>
        {
            let mut reference = reference.clone();
            reference.lifetime = Some(Lifetime::new("'call", reference.and_token.span));
            Type::Reference(reference)
        }
        _ => ty.clone(),
    }
}

/// The body's own text: what errors that are found while tracing are shown in.
fn source_text(block: &Block) -> TokenStream {
    let span = block.brace_token.span.join();
    let text = span.source_text().unwrap_or_default();
    let start = span.start();
    let line = u32::try_from(start.line).unwrap_or(0);
    let column = u32::try_from(start.column + 1).unwrap_or(1);
    quote_spanned! {Span::call_site()=>
        ::metile::lang::SourceText {
            file: ::core::file!(),
            first_line: #line,
            first_column: #column,
            text: #text,
        }
    }
}
