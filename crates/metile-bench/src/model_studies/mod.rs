//! Studies of models: whole generations beside unmodified frameworks, gated by their whole state.

mod candidate;
mod chunked_prefill;
mod end_to_end;
mod generation;
mod interleaving;
mod matrix_attention;
mod rival;
mod setup;
mod sixteen_bit;
mod state_gate;
mod tokens_gate;
mod workload;

#[cfg(test)]
mod tests;

use crate::study::Entry;

/// The studies of this module.
pub fn entries() -> Vec<Entry> {
    vec![chunked_prefill::ENTRY, end_to_end::ENTRY, interleaving::ENTRY, matrix_attention::ENTRY]
}
