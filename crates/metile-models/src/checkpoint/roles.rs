//! What a tensor is for, its name in either format, and the shape it must have.

use crate::config::ModelConfig;

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A vector per token, `[vocabulary, width]`.
    Embedding,
    /// Weight of the last norm, `[width]`.
    OutputNorm,
    /// The output projection, `[vocabulary, width]`; absent where the embedding is used.
    Output,
    /// What RoPE's frequencies are divided by, `[head_dim / 2]`; GGUF only.
    RopeFactors,
    /// A tensor of the layer with this number, from 0.
    Layer(usize, LayerRole),
}

/// What a tensor of one decoder layer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Weight of the norm before attention, `[width]`.
    AttentionNorm,
    /// Query projection, `[heads * head_dim, width]`.
    Query,
    /// Key projection, `[kv_heads * head_dim, width]`.
    Key,
    /// Value projection, `[kv_heads * head_dim, width]`.
    Value,
    /// Added to the queries, `[heads * head_dim]`.
    QueryBias,
    /// Added to the keys, `[kv_heads * head_dim]`.
    KeyBias,
    /// Added to the values, `[kv_heads * head_dim]`.
    ValueBias,
    /// Projection of the heads' outputs, `[width, heads * head_dim]`.
    AttentionOutput,
    /// Weight of each query head's norm, `[head_dim]`.
    QueryNorm,
    /// Weight of each key head's norm, `[head_dim]`.
    KeyNorm,
    /// Weight of the norm before the MLP, `[width]`.
    MlpNorm,
    /// The MLP's projection that goes through SiLU, `[mlp_width, width]`.
    Gate,
    /// The MLP's projection that is multiplied with the gate, `[mlp_width, width]`.
    Up,
    /// The MLP's projection back, `[width, mlp_width]`.
    Down,
}

impl LayerRole {
    /// Every role.
    pub const ALL: [LayerRole; 14] = [
        LayerRole::AttentionNorm,
        LayerRole::Query,
        LayerRole::Key,
        LayerRole::Value,
        LayerRole::QueryBias,
        LayerRole::KeyBias,
        LayerRole::ValueBias,
        LayerRole::AttentionOutput,
        LayerRole::QueryNorm,
        LayerRole::KeyNorm,
        LayerRole::MlpNorm,
        LayerRole::Gate,
        LayerRole::Up,
        LayerRole::Down,
    ];
}

/// How a format names tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    Gguf,
    HuggingFace,
}

impl Naming {
    pub(super) fn name(self, role: Role) -> String {
        use LayerRole as L;
        let gguf = self == Naming::Gguf;
        let of =
            |gguf_name: &str, name: &str| if gguf { gguf_name.to_owned() } else { name.to_owned() };
        let (n, layer) = match role {
            Role::Embedding => return of("token_embd.weight", "model.embed_tokens.weight"),
            Role::OutputNorm => return of("output_norm.weight", "model.norm.weight"),
            Role::Output => return of("output.weight", "lm_head.weight"),
            Role::RopeFactors => return of("rope_freqs.weight", "rope_freqs.weight"),
            Role::Layer(n, layer) => (n, layer),
        };
        let (short, long) = match layer {
            L::AttentionNorm => ("attn_norm.weight", "input_layernorm.weight"),
            L::Query => ("attn_q.weight", "self_attn.q_proj.weight"),
            L::Key => ("attn_k.weight", "self_attn.k_proj.weight"),
            L::Value => ("attn_v.weight", "self_attn.v_proj.weight"),
            L::QueryBias => ("attn_q.bias", "self_attn.q_proj.bias"),
            L::KeyBias => ("attn_k.bias", "self_attn.k_proj.bias"),
            L::ValueBias => ("attn_v.bias", "self_attn.v_proj.bias"),
            L::AttentionOutput => ("attn_output.weight", "self_attn.o_proj.weight"),
            L::QueryNorm => ("attn_q_norm.weight", "self_attn.q_norm.weight"),
            L::KeyNorm => ("attn_k_norm.weight", "self_attn.k_norm.weight"),
            L::MlpNorm => ("ffn_norm.weight", "post_attention_layernorm.weight"),
            L::Gate => ("ffn_gate.weight", "mlp.gate_proj.weight"),
            L::Up => ("ffn_up.weight", "mlp.up_proj.weight"),
            L::Down => ("ffn_down.weight", "mlp.down_proj.weight"),
        };
        if gguf { format!("blk.{n}.{short}") } else { format!("model.layers.{n}.{long}") }
    }
}

/// The shape of the tensor for `role`, or `None` where a model of this configuration has no such
/// tensor.
pub(super) fn shape(config: &ModelConfig, role: Role) -> Option<Vec<usize>> {
    use LayerRole as L;
    let width = config.width;
    let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let layer = match role {
        Role::Embedding => return Some(vec![config.vocabulary, width]),
        Role::OutputNorm => return Some(vec![width]),
        Role::Output => return (!config.tied).then(|| vec![config.vocabulary, width]),
        Role::RopeFactors => return Some(vec![config.head_dim / 2]),
        Role::Layer(n, _) if n >= config.layers => return None,
        Role::Layer(_, layer) => layer,
    };
    match layer {
        L::AttentionNorm | L::MlpNorm => Some(vec![width]),
        L::Query => Some(vec![queries, width]),
        L::Key | L::Value => Some(vec![keys, width]),
        L::QueryBias => config.attention_bias.then(|| vec![queries]),
        L::KeyBias | L::ValueBias => config.attention_bias.then(|| vec![keys]),
        L::AttentionOutput => Some(vec![width, queries]),
        L::QueryNorm | L::KeyNorm => config.qk_norm.then(|| vec![config.head_dim]),
        L::Gate | L::Up => Some(vec![config.mlp_width, width]),
        L::Down => Some(vec![width, config.mlp_width]),
    }
}
