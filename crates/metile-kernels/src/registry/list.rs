//! Which kernels there are, and which of their instances can be shown: those that entry functions launch.

use super::Entry;
use crate::activation::*;
use crate::elementwise::{self, Larger, Minus, Over, Plus, SiluTimes, Smaller, Times};
use crate::reduce::{self, Maximum, Mean, Minimum, Sum};
use crate::{
    argmax, attention, cache, embedding, fft, gemm, heads, norm, project, quantize, rope, softmax,
    transpose,
};
use half::{bf16, f16};
use metile::lang::Definition;
use metile::lang::element::{Affine4, Affine8, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// Pushes an entry whose instances are every choice of types with every choice of constants.
macro_rules! entry {
    ($all:ident, $family:literal, $module:ident::$kernel:ident, $dtype:expr, $summary:literal,
     [$($types:tt)*], $constants:tt) => {
        $all.push(Entry {
            name: stringify!($kernel),
            family: $family,
            summary: $summary,
            dtype: $dtype,
            instances: [$(entry!(@types $module::$kernel, $types, $constants)),*].concat(),
        });
    };
    // More instances of the entry before.
    (also $all:ident, $module:ident::$kernel:ident, [$($types:tt)*], $constants:tt) => {
        if let Some(entry) = $all.last_mut() {
            entry.instances.extend([$(entry!(@types $module::$kernel, $types, $constants)),*].concat());
        }
    };
    (@types $module:ident::$kernel:ident, $types:tt, [$($constants:tt)*]) => {
        vec![$(entry!(@one $module::$kernel, $types, $constants)),*]
    };
    (@one $module:ident::$kernel:ident, ($($ty:ty),*), ($($constant:tt),*)) => {
        $module::$kernel::definition::<$($ty,)* $($constant),*> as fn() -> Definition
    };
}

/// All kernels of the library, by family.
pub fn registry() -> Vec<Entry> {
    let mut all = Vec::new();
    elementwise_entries(&mut all);
    row_entries(&mut all);
    matrix_entries(&mut all);
    projection_entries(&mut all);
    decoder_entries(&mut all);
    all
}

fn elementwise_entries(all: &mut Vec<Entry>) {
    entry!(
        all,
        "elementwise",
        elementwise::map_tiles,
        Some("T"),
        "out = F(x), element by element",
        [
            (f32, GeluTanh)(f16, GeluTanh)(bf16, GeluTanh)(f32, GeluErf)(f16, GeluErf)(
                bf16, GeluErf
            )(f32, Silu)(f16, Silu)(bf16, Silu)(f32, Relu)(f16, Relu)(bf16, Relu)(
                f32, Identity
            )(f32, Negate)(f32, Magnitude)(f32, Sigmoid)(f32, Tanh)(f32, Exp)(f32, Log)(
                f32, SquareRoot
            )(f32, Square)
        ],
        [(4, 4096)(64, 256)(1, 16384)]
    );
    entry!(
        all,
        "elementwise",
        elementwise::convert_tiles,
        Some("T"),
        "out = x in another type",
        [(f32, bf16)(f32, f16)(bf16, f32)(f16, f32)],
        [(4, 4096)(64, 256)(1, 16384)]
    );
    entry!(
        all,
        "elementwise",
        elementwise::combine_tiles,
        Some("T"),
        "out = F(x, y), element by element",
        [(f32, Plus)(f16, Plus)(bf16, Plus)(f32, Times)(f16, Times)(bf16, Times)(f32, SiluTimes)(
            f16, SiluTimes
        )(bf16, SiluTimes)(f32, Minus)(f32, Over)(f32, Larger)(f32, Smaller)],
        [(4, 4096)(64, 256)(1, 16384)]
    );
    entry!(
        all,
        "elementwise",
        elementwise::scale_tiles,
        Some("T"),
        "out = factor · x",
        [(f32)(f16)(bf16)],
        [(4, 4096)(64, 256)(1, 16384)]
    );
}

fn row_entries(all: &mut Vec<Entry>) {
    entry!(
        all,
        "softmax",
        softmax::softmax_row,
        Some("T"),
        "softmax of a row as one tile",
        [(f32)(f16)(bf16)],
        [(1024)(256)(4096)(16384)]
    );
    entry!(
        all,
        "softmax",
        softmax::softmax_rows,
        Some("T"),
        "softmax of several narrow rows a program",
        [(f32)(f16)(bf16)],
        [(32, 256)]
    );
    entry!(
        all,
        "softmax",
        softmax::softmax_online,
        Some("T"),
        "softmax of wide rows, read twice",
        [(f32)(f16)(bf16)],
        [(4096)(256)(1024)(16384)]
    );
    entry!(
        all,
        "rms_norm",
        norm::rms_norm_row,
        Some("X"),
        "RMSNorm of a row as one tile",
        [(f32, f32)(f16, f16)(bf16, bf16)(f32, f16)(f32, bf16)],
        [(1024)(256)(4096)(16384)]
    );
    entry!(
        all,
        "rms_norm",
        norm::rms_norm_rows,
        Some("X"),
        "RMSNorm of several narrow rows a program",
        [(f32, f32)(f16, f16)(bf16, bf16)],
        [(32, 256)]
    );
    entry!(
        all,
        "rms_norm",
        norm::rms_norm_looped,
        Some("X"),
        "RMSNorm of wide rows, read twice",
        [(f32, f32)(f16, f16)(bf16, bf16)],
        [(4096)(256)(1024)(16384)]
    );
    entry!(
        all,
        "add_rms_norm",
        norm::add_rms_norm_row,
        Some("N"),
        "x += delta, then RMSNorm, a row as one tile",
        [(f32)(f16)(bf16)],
        [(1024)(256)(4096)(16384)]
    );
    entry!(
        all,
        "add_rms_norm",
        norm::add_rms_norm_looped,
        Some("N"),
        "x += delta, then RMSNorm, of wide rows",
        [(f32)(f16)(bf16)],
        [(4096)(256)]
    );
    entry!(
        all,
        "head_norm",
        norm::head_norm_heads,
        Some("N"),
        "RMSNorm of each head, in place",
        [(f32)(f16)(bf16)],
        [(8, 64)(8, 128)(4, 1024)]
    );
    entry!(
        all,
        "layer_norm",
        norm::layer_norm_row,
        Some("X"),
        "LayerNorm of a row as one tile",
        [(f32, f32)(f16, f16)(bf16, bf16)],
        [(1024)(256)(4096)(16384)]
    );
    entry!(
        all,
        "layer_norm",
        norm::layer_norm_rows,
        Some("X"),
        "LayerNorm of several narrow rows a program",
        [(f32, f32)(f16, f16)(bf16, bf16)],
        [(32, 256)]
    );
    entry!(
        all,
        "layer_norm",
        norm::layer_norm_looped,
        Some("X"),
        "LayerNorm of wide rows, read three times",
        [(f32, f32)(f16, f16)(bf16, bf16)],
        [(4096)(256)(1024)(16384)]
    );
    entry!(
        all,
        "reductions",
        reduce::reduce_row,
        Some("T"),
        "a number for each row",
        [(f32, f32, Sum)(f16, f16, Sum)(bf16, bf16, Sum)(f32, f32, Mean)(f32, f32, Maximum)(
            f32, f32, Minimum
        )],
        [(4096)(256)]
    );
    entry!(
        all,
        "reductions",
        reduce::reduce_rows,
        Some("T"),
        "a number for each of several narrow rows a program",
        [(f32, f32, Sum)(f16, f16, Sum)(bf16, bf16, Sum)(f32, f32, Mean)(f32, f32, Maximum)(
            f32, f32, Minimum
        )],
        [(64, 256)]
    );
    entry!(
        all,
        "argmax",
        argmax::argmax_row,
        Some("X"),
        "index of the largest element of each row",
        [(f32)(f16)(bf16)],
        [(4096)(256)]
    );
    entry!(
        all,
        "argmax",
        argmax::argmax_parts_blocks,
        Some("X"),
        "largest element of each part of a row",
        [(f32)(f16)(bf16)],
        [(4096)(256)]
    );
    entry!(
        all,
        "argmax",
        argmax::argmax_merge_parts,
        None,
        "index of the largest, from the parts",
        [()],
        [(64)]
    );
}

fn matrix_entries(all: &mut Vec<Entry>) {
    entry!(
        all,
        "gemm",
        gemm::gemm_tiles,
        Some("T"),
        "out = F(scale · a · b)",
        [(f32, Identity)(f16, Identity)(bf16, Identity)(f32, Relu)(f32, GeluTanh)(f32, GeluErf)(
            f32, Silu
        )],
        [(128, 512, 256)(64, 128, 256)(32, 64, 64)]
    );
    entry!(
        all,
        "gemm",
        gemm::gemm_bias_tiles,
        Some("T"),
        "out = F(scale · a · b + bias)",
        [(f32, Identity)(f16, Identity)(bf16, Identity)(f32, Relu)(f32, GeluTanh)(f32, GeluErf)(
            f32, Silu
        )],
        [(128, 512, 256)(64, 128, 256)(32, 64, 64)]
    );
    entry!(
        all,
        "gemm",
        gemm::gemm_residual_tiles,
        Some("T"),
        "out = residual + F(scale · a · b)",
        [(f32, Identity)(f16, Identity)(bf16, Identity)],
        [(128, 512, 256)(64, 128, 256)(32, 64, 64)]
    );
    entry!(
        all,
        "batched_gemm",
        gemm::batched_gemm_tiles,
        Some("T"),
        "out[i] = a[i] · b[i]",
        [(f32)(f16)(bf16)],
        [(128, 512, 256)(64, 128, 256)(32, 64, 64)]
    );
    entry!(
        all,
        "transpose",
        transpose::transpose_tiles,
        Some("T"),
        "out[j, i] = x[i, j]",
        [(f32)(f16)(bf16)(i8)(u8)(i16)(u16)(i32)(u32)(i64)(u64)(bool)],
        [(64)]
    );
    entry!(
        all,
        "fft",
        fft::fft_row,
        Some("T"),
        "discrete Fourier transform of rows",
        [(f32)(f16)(bf16)],
        [(false, 1024)(true, 1024)(false, 64)(false, 256)(false, 4096)(true, 4096)(false, 16384)]
    );
}

fn projection_entries(all: &mut Vec<Entry>) {
    entry!(all, "projection", project::project_tiles, Some("W"), "out = x · wᵀ, weights dense or packed",
        [(f32, f32) (f32, f16) (f32, bf16) (f32, Q4_0) (f32, Q4_1) (f32, Q5_0) (f32, Q5_1) (f32, Q8_0)
         (f32, Q4K) (f32, Q5K) (f32, Q6K)
         (f32, Affine4<32, f16>) (f32, Affine4<32, bf16>) (f32, Affine4<32, f32>)
         (f32, Affine4<64, f16>) (f32, Affine4<64, bf16>) (f32, Affine4<64, f32>)
         (f32, Affine4<128, f16>) (f32, Affine4<128, bf16>) (f32, Affine4<128, f32>)
         (f32, Affine8<32, f16>) (f32, Affine8<32, bf16>) (f32, Affine8<32, f32>)
         (f32, Affine8<64, f16>) (f32, Affine8<64, bf16>) (f32, Affine8<64, f32>)
         (f32, Affine8<128, f16>) (f32, Affine8<128, bf16>) (f32, Affine8<128, f32>)
         (Q8_0, Q4_0) (Q8_0, Q4_1) (Q8_0, Q5_0) (Q8_0, Q5_1) (Q8_0, Q8_0) (Q8_0, Q4K) (Q8_0, Q5K)
         (Q8_0, Q6K)],
        [(1, 32, 2048) (16, 32, 256) (16, 64, 2048) (64, 64, 256) (256, 192, 512)]);
    entry!(also all, project::project_tiles, [(f16, f16) (bf16, bf16)], [(64, 128, 64) (128, 128, 64)]);
    entry!(
        all,
        "projection",
        project::project_bias_tiles,
        Some("W"),
        "out = x · wᵀ + bias",
        [(f32, f32, f32)(f32, f16, f16)(f32, bf16, bf16)(f32, Q4_0, f32)(f32, Q8_0, f32)(
            Q8_0, Q8_0, f32
        )],
        [(1, 32, 2048)(16, 64, 2048)(256, 192, 512)]
    );
    entry!(
        also all,
        project::project_bias_tiles,
        [(f16, f16, f32)(bf16, bf16, f32)],
        [(64, 128, 64)(128, 128, 64)]
    );
    entry!(
        all,
        "projection",
        project::project_add_tiles,
        Some("W"),
        "out += x · wᵀ",
        [(f32, f32)(f32, f16)(f32, bf16)(f32, Q4_0)(f32, Q4_1)(f32, Q8_0)(Q8_0, Q8_0)],
        [(1, 32, 2048)(16, 64, 2048)(256, 192, 512)]
    );
    entry!(also all, project::project_add_tiles, [(f16, f16) (bf16, bf16)], [(64, 128, 64) (128, 128, 64)]);
    entry!(
        all,
        "projection",
        project::project_swiglu_tiles,
        Some("W"),
        "out = silu(x · gateᵀ) · (x · upᵀ)",
        [(f32, f32)(f32, f16)(f32, bf16)(f32, Q4_0)(f32, Q4_1)(f32, Q8_0)(Q8_0, Q8_0)],
        [(1, 32, 2048)(16, 64, 2048)(256, 192, 512)]
    );
    entry!(also all, project::project_swiglu_tiles, [(f16, f16) (bf16, bf16)], [(64, 64, 64) (128, 64, 64)]);
}

fn decoder_entries(all: &mut Vec<Entry>) {
    entry!(all, "embedding", embedding::embed_rows, Some("W"), "rows of a table by id, of a chunk's valid rows",
        [(f32) (f16) (bf16) (Q4_0) (Q4_1) (Q5_0) (Q5_1) (Q8_0) (Q4K) (Q5K) (Q6K) (Affine4<64, bf16>)
         (Affine8<64, bf16>)], [(2048) (256)]);
    entry!(
        all,
        "embedding",
        embedding::embedding_rows,
        Some("W"),
        "rows of a table by id",
        [(f32, f32)(f16, f16)(bf16, bf16)(Q8_0, f32)],
        [(2048)(256)]
    );
    entry!(
        all,
        "quantize_q8",
        quantize::quantize_q8_blocks,
        None,
        "GGUF Q8_0 blocks of activations",
        [()],
        [(2048)(256)]
    );
    entry!(
        all,
        "rope",
        rope::rope_heads,
        None,
        "rotary position embedding, in place",
        [()],
        [(false, 8, 32)(false, 8, 64)(false, 4, 512)(true, 8, 32)(true, 8, 64)(true, 4, 512)]
    );
    entry!(
        all,
        "kv_write",
        cache::kv_write_rows,
        Some("C"),
        "keys or values of a chunk into the cache",
        [(f32)(f16)(bf16)],
        [(1, 128)(32, 128)(4, 1024)]
    );
    entry!(
        all,
        "ready_heads",
        heads::ready_heads_rows,
        Some("C"),
        "heads of a chunk normed and turned, keys and values into their caches",
        [(f32)(f16)(bf16)],
        [(true, false, 64)(false, false, 32)(false, false, 64)(false, true, 32)(false, true, 64)(
            true, true, 64
        )]
    );
    entry!(
        all,
        "decode_attention",
        attention::decode_attention_part,
        Some("C"),
        "attention of one token over a part of the keys",
        [(f32)(f16)(bf16)],
        [(3, 128, 64)(4, 128, 128)(1, 128, 64)(1, 128, 128)(2, 128, 64)(2, 128, 128)(4, 128, 64)(
            8, 128, 64
        )(8, 128, 128)(8, 128, 256)]
    );
    entry!(
        all,
        "decode_attention",
        attention::decode_attention_join,
        None,
        "attention of one token from its parts",
        [()],
        [(16, 64)(16, 128)(16, 256)]
    );
    entry!(
        all,
        "prefill_attention",
        attention::prefill_attention_tiles,
        Some("C"),
        "causal attention of a chunk of tokens",
        [(f32)(f16)(bf16)],
        [(true, 32, 3, 128, 64)(true, 32, 4, 128, 128)(true, 64, 1, 128, 64)(
            true, 64, 1, 128, 128
        )(true, 32, 4, 128, 64)(true, 16, 8, 128, 128)(false, 8, 4, 64, 64)(
            false, 8, 8, 64, 256
        )]
    );
    entry!(
        also all,
        attention::prefill_attention_tiles,
        [(f16)(bf16)],
        [(true, 64, 2, 64, 128)(true, 128, 1, 64, 128)(true, 32, 4, 64, 64)(false, 32, 4, 64, 64)]
    );
}
