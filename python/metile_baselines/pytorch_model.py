"""Transformers' models: eager with its dynamic cache; compiled with its static cache."""

import inspect
import os

import torch
from transformers import AutoModelForCausalLM, DynamicCache, StaticCache

from . import environment
from .decoding import Decoding
from .protocol import Refusal
from .pytorch_arrays import DEVICE, DTYPES, put, settings


class Part(Decoding):
    packages = ("torch", "transformers", "triton", "numpy", "gguf", "safetensors")

    def __init__(self):
        super().__init__()
        self.model = self.cache = self.step = self.rows = None

    def settings(self):
        return {**environment.settings(), **settings()}

    @torch.inference_mode()
    def load_checkpoint(self, path, dtype, capacity, variant):
        self.model = self.cache = self.step = self.rows = None
        where = {"pretrained_model_name_or_path": path}
        if not os.path.isdir(path):
            folder, name = os.path.split(path)
            where = {"pretrained_model_name_or_path": folder, "gguf_file": name}
        if dtype not in (None, "f32", "f16", "bf16"):
            raise Refusal(f"weights in {dtype}")
        model = AutoModelForCausalLM.from_pretrained(
            **where, dtype=DTYPES[dtype] if dtype else "auto", attn_implementation="sdpa", local_files_only=True
        )
        self.model = model.to(DEVICE).eval()
        # Renamed from one release to another.
        takes = inspect.signature(model.forward).parameters
        self.keyword = "cache" if "cache" in takes else "past_key_values"
        self.step = self.model
        self.cache = DynamicCache(config=model.config)
        notes = "eager, DynamicCache"
        if variant == "compiled":
            self.cache = StaticCache(config=model.config, max_cache_len=capacity)
            # On a CPU there are no graphs to replay, and the mode would say so.
            mode = "reduce-overhead" if DEVICE.type == "cuda" else "default"
            self.step = torch.compile(self.model, mode=mode, fullgraph=True, dynamic=False)
            notes = f"StaticCache; forwards of one token through torch.compile(mode={mode!r}, fullgraph=True)"
        self.static = variant == "compiled"
        # Compiled now, and so often that graphs are captured; the geometry is read off the cache.
        for _ in range(4 if self.static else 1):
            self.fresh()
            for _ in range(min(capacity, 3)):
                self.forward([0], "none")
                self.greedy()
        keys = self.cache.layers[0].keys
        return {
            "layers": len(self.cache.layers),
            "kv_heads": keys.shape[1],
            "head_dim": keys.shape[3],
            "vocabulary": self.rows.shape[-1],
            "dtype": str(model.dtype).removeprefix("torch."),
            "weight_bytes": sum({p.data_ptr(): p.nbytes for p in model.parameters()}.values()),
            "settings": {"how": notes, "attention": model.config._attn_implementation},
        }

    @torch.inference_mode()
    def fresh(self):
        if self.static:
            self.cache.reset()
        else:
            self.cache = DynamicCache(config=self.model.config)

    @torch.inference_mode()
    def forward(self, ids, rows):
        step = self.step if len(ids) == 1 else self.model
        keep = 0 if rows == "all" else 1
        cache = {self.keyword: self.cache}
        output = step(torch.tensor([ids], device=DEVICE), use_cache=True, logits_to_keep=keep, **cache)
        self.rows = output.logits

    def greedy(self):
        return int(self.rows[0, -1].argmax())

    def cache_length(self):
        return int(self.cache.get_seq_length())

    def logits(self, exchange, rows):
        return put(exchange, self.rows[0, -1] if rows == "last" else self.rows[0])

    @torch.inference_mode()
    def key_values(self, exchange, layers, positions):
        start, end = positions
        chosen = self.cache.layers[layers[0] : layers[1]]

        def stacked(name):
            return put(exchange, torch.stack([getattr(layer, name)[0, :, start:end] for layer in chosen]))

        return {"keys": stacked("keys"), "values": stacked("values")}
