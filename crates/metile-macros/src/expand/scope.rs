//! Which names are cells at a point of the body.

use std::collections::{HashMap, HashSet};
use syn::visit_mut::{self, VisitMut};
use syn::{Pat, PatIdent};

/// Scopes from outermost to innermost; a name maps to whether it is a cell.
#[derive(Debug, Default)]
pub struct Scopes {
    scopes: Vec<HashMap<String, bool>>,
    /// Cells of scopes below this one belong to the code around a closure.
    closure_floor: Vec<usize>,
}

impl Scopes {
    pub fn push(&mut self) {
        self.scopes.push(HashMap::new());
    }
    pub fn pop(&mut self) {
        self.scopes.pop();
    }
    pub fn enter_closure(&mut self) {
        self.closure_floor.push(self.scopes.len());
    }
    pub fn leave_closure(&mut self) {
        self.closure_floor.pop();
    }

    pub fn declare(&mut self, name: &str, is_cell: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), is_cell);
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let (level, is_cell) = self
            .scopes
            .iter()
            .enumerate()
            .rev()
            .find_map(|(level, scope)| scope.get(name).map(|&is_cell| (level, is_cell)))?;
        is_cell.then_some(level)
    }

    pub fn is_cell(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Whether the cell `name` was made outside of the closure this point lies in.
    pub fn is_captured(&self, name: &str) -> bool {
        match (self.find(name), self.closure_floor.last()) {
            (Some(level), Some(&floor)) => level < floor,
            _ => false,
        }
    }
}

/// The names a pattern binds; those bound `mut` are made immutable and returned first. A name that
/// several alternatives bind counts once.
pub fn take_mut_names(pattern: &mut Pat) -> (Vec<syn::Ident>, Vec<syn::Ident>) {
    let mut names = Names::default();
    names.visit_pat_mut(pattern);
    let mut seen = HashSet::new();
    names.mutable.retain(|name| seen.insert(name.to_string()));
    (names.mutable, names.plain)
}

#[derive(Default)]
struct Names {
    mutable: Vec<syn::Ident>,
    plain: Vec<syn::Ident>,
}

impl VisitMut for Names {
    fn visit_pat_ident_mut(&mut self, node: &mut PatIdent) {
        // `ref mut x` is no variable: it is `x` that borrows.
        if node.by_ref.is_none() && node.mutability.take().is_some() {
            self.mutable.push(node.ident.clone());
        } else {
            self.plain.push(node.ident.clone());
        }
        visit_mut::visit_pat_ident_mut(self, node);
    }
}

/// Whether a lone name in a pattern is surely a variable: one in upper case may be a constant or a
/// unit struct.
pub fn is_variable(ident: &syn::Ident) -> bool {
    !ident.to_string().chars().next().is_some_and(char::is_uppercase)
}
