//! Language models as files: what a checkpoint holds and what its configuration, tokenizer and chat
//! template mean. Everything read here comes from outside, so every size is checked against the file
//! before it is believed.

pub mod chat_template;
pub mod checkpoint;
pub mod config;
pub mod conversation;
pub mod decoder;
mod error;
pub mod generate;
pub mod hub;
mod json;
pub mod memory;
pub mod rope;
pub mod sampling;
pub mod tokenizer;

pub use error::Error;
