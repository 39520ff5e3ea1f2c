"""MLX-LM's models: the unmodified model, in a synchronous greedy loop."""

import json
import os
import time
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.generate import stream_generate
from mlx_lm.models.cache import KVCache, make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load_model

from . import environment
from .decoding import Decoding
from .mlx_arrays import DTYPES, put, settings
from .protocol import Refusal, Unsupported


class Part(Decoding):
    packages = ("mlx", "mlx-lm", "mlx-cpu", "mlx-cuda-13", "mlx-metal", "numpy", "transformers")

    def __init__(self):
        super().__init__()
        self.model = self.cache = self.rows = None
        self.operations["stream_generate"] = self.stream

    def settings(self):
        return {**environment.settings(), **settings()}

    def load_checkpoint(self, path, dtype, capacity, variant):
        if variant != "eager":
            raise Unsupported("MLX-LM compiles its own parts; there is no other variant")
        if not os.path.isdir(path):
            raise Refusal("MLX-LM loads folders with config.json and safetensors")
        self.model = self.cache = self.rows = None
        adapted = older_keys(Path(path))
        model, config = load_model(Path(path), model_config=adapted)
        if dtype is not None:
            if dtype not in ("f32", "f16", "bf16"):
                raise Refusal(f"weights in {dtype}")
            # Packed weights stay packed: `set_dtype` leaves integers alone.
            model.set_dtype(DTYPES[dtype])
        model.eval()
        mx.eval(model.parameters())
        self.model = model
        probe = make_prompt_cache(model)
        if not all(type(layer) is KVCache for layer in probe):
            raise Refusal("a model with other caches than one of keys and values a layer")
        # One forward tells the geometry as it is computed with.
        logits = model(mx.array([[0]]), cache=probe)
        keys = probe[0].keys
        mx.eval(logits, keys)
        return {
            "layers": len(probe),
            "kv_heads": keys.shape[1],
            "head_dim": keys.shape[3],
            "vocabulary": logits.shape[-1],
            "dtype": str(logits.dtype).removeprefix("mlx.core."),
            "weight_bytes": sum(value.nbytes for _, value in tree_flatten(model.parameters())),
            "settings": {
                "quantization": config.get("quantization"),
                "model_type": config.get("model_type"),
                "configuration_given_beside": adapted,
            },
        }

    def fresh(self):
        self.cache = make_prompt_cache(self.model)

    def forward(self, ids, rows):
        if rows == "all":
            self.rows = self.model(mx.array([ids]), cache=self.cache)
        else:
            self.prompt(ids)

    def prompt(self, ids):
        """All but the last token in one call, whose caches are evaluated and whose logits nobody asks for; then the
        last token."""
        if len(ids) > 1:
            self.model(mx.array([ids[:-1]]), cache=self.cache)
            mx.eval([layer.state for layer in self.cache])
        self.rows = self.model(mx.array([ids[-1:]]), cache=self.cache)

    def greedy(self):
        return mx.argmax(self.rows[0, -1]).item()

    def cache_length(self):
        return self.cache[0].offset

    def logits(self, exchange, rows):
        return put(exchange, self.rows[0, -1] if rows == "last" else self.rows[0])

    def key_values(self, exchange, layers, positions):
        start, end = positions

        def stacked(name):
            return put(exchange, mx.stack([getattr(c, name)[0, :, start:end] for c in self.cache[layers[0] : layers[1]]]))

        return {"keys": stacked("keys"), "values": stacked("values")}

    def stream(self, arguments, exchange):
        """MLX-LM's own pipelined path, which reads the prompt in steps of its own choice; ids in, ids out."""
        prompt, outputs, _ = self.requested(arguments)
        self.fresh()
        ids, stamps = [], []
        start = time.perf_counter()
        for response in stream_generate(
            self.model, Silent(), mx.array(prompt), max_tokens=outputs, prompt_cache=self.cache
        ):
            ids.append(int(response.token))
            stamps.append(time.perf_counter() - start)
        # Its pipeline has run one forward more than it gave tokens: that entry is no part of the answer.
        self.position = len(prompt) + outputs - 1
        return {"ids": ids, "stamps_s": stamps, "cache_length": self.position}


def older_keys(path):
    """MLX-LM reads `rope_theta` and `rope_scaling` for every family, the newer `rope_parameters` only for some, and takes its
    default for the others without a word. They are given to it in the keys that it reads."""
    config = json.loads((path / "config.json").read_text())
    rope = config.get("rope_parameters")
    if not rope or "rope_theta" in config:
        return {}
    scaling = None if rope.get("rope_type", "default") == "default" else rope
    return {"rope_theta": rope["rope_theta"], "rope_scaling": scaling}


class NoText:
    """A detokenizer that writes nothing."""

    last_segment = ""

    def add_token(self, token):
        pass

    def finalize(self):
        pass


class Silent(TokenizerWrapper):
    """A tokenizer for ids alone, with no end of sequence."""

    detokenizer = NoText()
    eos_token_ids = frozenset()

    def __init__(self):
        pass
