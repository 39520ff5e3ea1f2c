"""The operations of a worker with a model, over a few functions of the library.

A subclass gives `load_checkpoint(path, dtype, capacity, variant)` → what was loaded, and
    `fresh()`         empties the cache, however the library does that
    `forward(ids, rows)`  runs the model on ids after those in the cache, keeping logits of `all` rows or the last
    `greedy()`        the last row's greedy token, on the host: everything before is complete then
    `logits(exchange, rows)`, `key_values(exchange, layers, positions)`  tensors
"""

import time

from . import environment
from .protocol import Refusal, Unsupported

NO_MODEL = "no model is loaded"


class Decoding:
    """State and checks that all libraries share."""

    packages = ()
    has_key_values = True

    def __init__(self):
        self.position = 0
        self.capacity = None
        self.vocabulary = None
        self.layers = 0
        self.operations = {
            "load": self.load,
            "reset": self.reset,
            "prefill": self.prefill,
            "step": self.step,
            "generate": self.generate,
        }
        if self.has_key_values:
            self.operations["kv"] = self.kv

    def versions(self):
        return environment.versions(*self.packages)

    def settings(self):
        return environment.settings()

    def load(self, arguments, exchange):
        capacity = arguments["capacity"]
        if capacity < 1:
            raise Refusal("a capacity of 0")
        self.vocabulary = None
        loaded = self.load_checkpoint(
            arguments["checkpoint"], arguments["dtype"], capacity, arguments["variant"]
        )
        self.fresh()
        self.position = 0
        self.capacity, self.vocabulary, self.layers = capacity, loaded["vocabulary"], loaded["layers"]
        return loaded

    def checked(self, ids, position):
        if self.vocabulary is None:
            raise Refusal(NO_MODEL)
        if not ids:
            raise Refusal("no ids")
        if position + len(ids) > self.capacity:
            raise Refusal(f"{len(ids)} ids after {position} exceed the capacity of {self.capacity}")
        for token in ids:
            if not 0 <= token < self.vocabulary:
                raise Refusal(f"the id {token} is beyond the vocabulary of {self.vocabulary}")
        return ids

    def reset(self, arguments, exchange):
        if self.vocabulary is None:
            raise Refusal(NO_MODEL)
        self.fresh()
        self.position = 0

    def advance(self, ids, rows, kv, exchange):
        self.checked(ids, self.position)
        start = time.perf_counter()
        self.forward(ids, rows)
        token = self.greedy()
        seconds = time.perf_counter() - start
        self.position += len(ids)
        answer = {"position": self.position, "token": token, "seconds": seconds}
        if rows != "none":
            answer["logits"] = self.logits(exchange, rows)
        if kv:
            answer["kv"] = self.key_values(exchange, (0, self.layers), (self.position - 1, self.position))
        return answer

    def prefill(self, arguments, exchange):
        return self.advance(arguments["ids"], arguments["logits"], False, exchange)

    def step(self, arguments, exchange):
        if arguments["kv"] and not self.has_key_values:
            raise Unsupported("the library does not show its K/V")
        rows = "last" if arguments["logits"] else "none"
        return self.advance([arguments["token"]], rows, arguments["kv"], exchange)

    def kv(self, arguments, exchange):
        layers, positions = arguments["layers"], arguments["positions"]
        for (start, end), limit, what in ((layers, self.layers, "layers"), (positions, self.position, "positions")):
            if not 0 <= start < end <= limit:
                raise Refusal(f"{what} {start}..{end} of {limit}")
        return self.key_values(exchange, layers, positions)

    def requested(self, arguments):
        prompt, outputs = arguments["prompt"], arguments["outputs"]
        if outputs < 1:
            raise Refusal("no outputs")
        forced = arguments.get("forced")
        if forced is not None and len(forced) != outputs - 1:
            raise Refusal(f"{len(forced)} forced ids for {outputs} outputs")
        self.checked(prompt, 0)
        self.checked(prompt + (forced or prompt[:1] * (outputs - 1)), 0)
        return prompt, outputs, forced

    def generate(self, arguments, exchange):
        prompt, outputs, forced = self.requested(arguments)
        ids, stamps = [], []
        start = time.perf_counter()
        self.fresh()
        self.forward(prompt, "none")
        ids.append(self.greedy())
        stamps.append(time.perf_counter() - start)
        for n in range(outputs - 1):
            self.forward([ids[-1] if forced is None else forced[n]], "none")
            ids.append(self.greedy())
            stamps.append(time.perf_counter() - start)
        self.position = len(prompt) + outputs - 1
        return {"ids": ids, "stamps_s": stamps, "cache_length": self.cache_length()}
