//! Matrix products over strided, half-precision and packed operands.
