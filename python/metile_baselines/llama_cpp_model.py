"""llama.cpp's models, through llama-cpp-python. Its K/V is not shown: tokens and logits alone can be compared."""

import os

import llama_cpp
import numpy as np

from . import environment
from .decoding import Decoding
from .protocol import Refusal, Unsupported


class Part(Decoding):
    packages = ("llama-cpp-python", "numpy")
    has_key_values = False

    def __init__(self):
        super().__init__()
        self.model = None

    def settings(self):
        info = llama_cpp.llama_print_system_info().decode().strip()
        return {**environment.settings(), "system": info, "flash_attention": environment.DEVICE != "cpu"}

    def load_checkpoint(self, path, dtype, capacity, variant):
        if variant != "eager":
            raise Unsupported("llama.cpp has no compiler")
        if dtype is not None:
            raise Unsupported("llama.cpp computes with the file's own representation")
        if not os.path.isfile(path):
            raise Refusal("llama.cpp loads GGUF files")
        self.model = None
        on_gpu = environment.DEVICE == "cuda"
        if on_gpu and not llama_cpp.llama_supports_gpu_offload():
            raise Refusal("this llama-cpp-python was built without CUDA")
        model = llama_cpp.Llama(
            path,
            n_ctx=capacity,
            n_batch=512,
            n_threads=environment.THREADS,
            n_threads_batch=environment.THREADS,
            n_gpu_layers=-1 if on_gpu else 0,
            flash_attn=on_gpu,
            verbose=False,
        )
        self.model = model
        inner = model._model.model
        heads = llama_cpp.llama_model_n_head(inner)
        return {
            "layers": llama_cpp.llama_model_n_layer(inner),
            "kv_heads": llama_cpp.llama_model_n_head_kv(inner),
            "head_dim": int(model.metadata.get(self.key("attention.key_length"), model.n_embd() // heads)),
            "vocabulary": model.n_vocab(),
            "dtype": model.metadata.get("general.file_type", "unknown"),
            "weight_bytes": llama_cpp.llama_model_size(inner),
            "settings": {
                "arithmetic": "the file's blocks with 8-bit activations",
                "description": model.metadata.get("general.name", ""),
                "k_v": "f16",
            },
        }

    def key(self, name):
        return f"{self.model.metadata.get('general.architecture')}.{name}"

    def fresh(self):
        self.model.reset()

    def forward(self, ids, rows):
        if rows == "all":
            raise Unsupported("logits of the last row alone")
        self.model.eval(ids)

    def row(self):
        return np.ctypeslib.as_array(self.model._ctx.get_logits(), shape=(self.vocabulary or self.model.n_vocab(),))

    def greedy(self):
        return int(self.row().argmax())

    def cache_length(self):
        return self.model.n_tokens

    def logits(self, exchange, rows):
        return exchange.put("f32", [self.vocabulary], np.ascontiguousarray(self.row()).view(np.uint8))
