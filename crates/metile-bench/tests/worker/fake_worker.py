"""A worker without a library: a toy model and one kernel in plain Python, over the real protocol, and the ways in
which a worker can misbehave. `fake_worker.py MODE`, with `python/` on PYTHONPATH."""

import sys

from metile_baselines import streams

MODE = sys.argv[1]
if MODE == "garbage_before_hello":
    print("a library's banner", flush=True)
requests, answers = streams.claim()

import array  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402

from metile_baselines.decoding import Decoding  # noqa: E402
from metile_baselines.protocol import Channel, Refusal, serve  # noqa: E402

VOCABULARY, LAYERS, HEADS, SIZE = 16, 2, 1, 4


def floats(values):
    return array.array("f", values)


class Toy(Decoding):
    """The token after t at position p is (3 t + p) mod 16. A key is the token it was made of, a value its position."""

    packages = ("no-such-package",)

    def load_checkpoint(self, path, dtype, capacity, variant):
        if not path.endswith("toy"):
            raise Refusal(f"{path} is no toy")
        if MODE == "absurd_geometry":
            return {**self.geometry(), "vocabulary": 1 << 40}
        return self.geometry()

    def geometry(self):
        return {
            "layers": LAYERS,
            "kv_heads": HEADS,
            "head_dim": SIZE,
            "vocabulary": VOCABULARY,
            "dtype": "float32",
            "weight_bytes": None,
            "settings": {},
        }

    def fresh(self):
        self.ids = []

    def forward(self, ids, rows):
        self.new = len(ids)
        self.ids += ids

    def row(self, n):
        best = (3 * self.ids[n] + n) % VOCABULARY
        return [1.0 if token == best else 0.0 for token in range(VOCABULARY)]

    def greedy(self):
        return self.row(len(self.ids) - 1).index(1.0)

    def cache_length(self):
        return len(self.ids) + (MODE == "short_cache")

    def logits(self, exchange, rows):
        chosen = range(len(self.ids) - (self.new if rows == "all" else 1), len(self.ids))
        values = floats(x for n in chosen for x in self.row(n))
        shape = [VOCABULARY] if rows == "last" else [self.new, VOCABULARY]
        line = exchange.put("f32", shape, values)
        return tampered(line, exchange)

    def key_values(self, exchange, layers, positions):
        span = range(*positions)
        shape = [layers[1] - layers[0], HEADS, len(span), SIZE]
        keys = floats(float(self.ids[p]) for _ in range(*layers) for p in span for _ in range(SIZE))
        values = floats(float(p) for _ in range(*layers) for p in span for _ in range(SIZE))
        return {"keys": exchange.put("f32", shape, keys), "values": exchange.put("f32", shape, values)}


def tampered(line, exchange):
    path = os.path.join(exchange.folder, line["file"])
    if MODE == "wrong_hash":
        with open(path, "r+b") as file:
            file.write(b"\xff")
    elif MODE == "wrong_dtype":
        line["dtype"] = "i32"
    elif MODE == "wrong_shape":
        line["shape"] = [2, *[n // 2 for n in line["shape"]]]
    elif MODE == "short_file":
        os.truncate(path, 3)
    elif MODE == "absurd_size":
        line["shape"] = [1 << 40]
    elif MODE == "uncountable":
        line["shape"] = [1 << 40, 1 << 40]
    elif MODE == "path":
        line["file"] = "../../../etc/hostname"
    elif MODE == "symlink":
        os.rename(path, path + "x")
        os.symlink(path + "x", path)
    elif MODE == "no_file":
        os.remove(path)
    return line


class Kernel:
    """`double`: out = 2 x."""

    def __init__(self):
        self.operations = {
            f"kernel_{name}": getattr(self, name) for name in ("prepare", "fill", "poison", "run", "output", "release")
        }
        self.prepared = {}

    def versions(self):
        return {}

    def settings(self):
        return {}

    def prepare(self, arguments, exchange):
        if arguments["op"] != "double":
            raise Refusal(f"no {arguments['op']}")
        handle = len(self.prepared) + 1
        self.prepared[handle] = {}
        self.fill({"handle": handle, "inputs": arguments["inputs"]}, exchange)
        shape = self.prepared[handle]["shape"]
        outputs = [{"name": "out", "dtype": "f32", "shape": shape}]
        return {"handle": handle, "outputs": outputs, "notes": ["a list a call"]}

    def fill(self, arguments, exchange):
        _, shape, data = exchange.get(arguments["inputs"]["x"])
        self.prepared[arguments["handle"]].update(x=floats(array.array("f", bytes(data))), shape=shape)

    def poison(self, arguments, exchange):
        self.prepared[arguments["handle"]].pop("out", None)

    def run(self, arguments, exchange):
        prepared, seconds = self.prepared[arguments["handle"]], []
        for _ in range(arguments["times"]):
            start = time.perf_counter()
            prepared["out"] = floats(2 * x for x in prepared["x"])
            seconds.append(time.perf_counter() - start)
        if MODE == "too_few_samples":
            seconds.pop()
        if MODE == "impossible_time":
            seconds[0] = 1e6
        return {"seconds": seconds}

    def output(self, arguments, exchange):
        prepared = self.prepared[arguments["handle"]]
        if "out" not in prepared:
            raise Refusal("no run since it was poisoned")
        return {"outputs": [{"name": "out", "tensor": exchange.put("f32", prepared["shape"], prepared["out"])}]}

    def release(self, arguments, exchange):
        del self.prepared[arguments["handle"]]


class Misbehaving:
    """`misbehave`: does what the mode says."""

    def __init__(self):
        self.operations = {"misbehave": self.misbehave, "print": self.print}

    def versions(self):
        return {}

    def settings(self):
        return {"path": os.environ["METILE_EXCHANGE"]}

    def print(self, arguments, exchange):
        print("a library that prints")
        os.write(1, b"and writes to its standard output\n")
        sys.stdout.flush()
        return {"standard_input": sys.stdin.read()}

    def misbehave(self, arguments, exchange):
        if MODE == "dies":
            print("last words\nof a worker", file=sys.stderr, flush=True)
            os._exit(7)
        if MODE == "dies_with_child":
            # A child that keeps the pipe open.
            if os.fork() == 0:
                time.sleep(20)
                os._exit(0)
            os._exit(7)
        if MODE == "hangs":
            print("thinking", file=sys.stderr, flush=True)
            time.sleep(600)
        raw = {
            "garbage": b"Loading weights: 100%|####|\n",
            "wrong_id": json.dumps({"id": 99, "ok": {}}).encode() + b"\n",
            "both": json.dumps({"id": 1, "ok": {}, "error": {"kind": "x", "message": "y"}}).encode() + b"\n",
            "neither": b'{"id": 1}\n',
            "not_utf8": b"\xff\xfe\n",
            "half_a_line": b'{"id": 1, "ok"',
            "endless_line": b"x" * (17 << 20),
            "nan": b'{"id": 1, "ok": {"seconds": NaN}}\n',
            "deep": b'{"id": 1, "ok": ' + b"[" * 100000 + b"\n",
        }.get(MODE)
        if raw is not None:
            try:
                os.write(answers, raw) if len(raw) < 60000 else open(answers, "wb", closefd=False).write(raw)
            except BrokenPipeError:
                pass
            if MODE in ("half_a_line", "endless_line"):
                os._exit(0)
            time.sleep(5)
        raise ValueError("an error of the library")


def parts():
    if MODE == "import_fails":
        import no_such_library  # noqa: F401
    return [Toy(), Kernel(), Misbehaving()]


if MODE == "other_name":
    serve("somebody", Channel(requests, answers), parts)
elif MODE == "other_protocol":
    os.write(answers, b'{"protocol":99,"worker":"fake","operations":[],"versions":{},"settings":{}}\n')
    time.sleep(5)
elif MODE == "never_starts":
    time.sleep(600)
else:
    serve("fake", Channel(requests, answers), parts)
