"""The operations of a worker with kernels, over a few functions of the library.

A subclass gives `functions`, by operation: a function of (parameters, variant, inputs, output shape) that gives a `Case`;
and `get`, `put`, `replace` for its arrays.
"""

import math
import time

from . import environment
from .protocol import Refusal, Unsupported

MOST_RUNS = 100_000


class Case:
    """A prepared operation. `compute(inputs)` completes it and gives its output; if `out` is there, that is
    where it goes, and the same memory each time."""

    def __init__(self, compute, notes, out=None):
        self.compute, self.notes, self.out = compute, notes, out
        self.inputs, self.result = {}, None


def same(what, *values):
    if len(set(values)) != 1:
        raise Refusal(f"{what} differ: {', '.join(map(str, values))}")
    return values[0]


def rank(name, shape, count):
    if len(shape) != count:
        raise Refusal(f"{name} has shape {list(shape)}, not {count} axes")
    return shape


def matrix(shapes, name, parameters):
    """Rows and columns of a weight matrix [n, k], dense or in affine groups: `NAME_q` packed into u32, `NAME_scales` and
    `NAME_biases` one a group."""
    bits = parameters.get("bits")
    if bits is None:
        return rank(name, shapes[name], 2)
    group = parameters["group"]
    if bits not in (2, 4, 8) or group < 1:
        raise Refusal(f"{bits} bits in groups of {group}")
    rows, words = rank(f"{name}_q", shapes[f"{name}_q"], 2)
    columns = words * 32 // bits
    for part in ("scales", "biases"):
        wanted, found = [rows, columns // group], list(shapes[f"{name}_{part}"])
        if wanted != found:
            raise Refusal(f"{name}_{part} has shape {found}, not {wanted}")
    return rows, columns


def matrix_names(name, parameters):
    return [name] if parameters.get("bits") is None else [f"{name}_q", f"{name}_scales", f"{name}_biases"]


def output_shape(op, parameters, shapes):
    """What an operation gives for inputs of these shapes; refuses those that do not fit."""
    if op == "gemm":
        m, k = rank("a", shapes["a"], 2)
        k2, n = rank("b", shapes["b"], 2) if not parameters.get("transpose_b") else rank("b", shapes["b"], 2)[::-1]
        same("inner extents", k, k2)
        return [m, n]
    if op == "project":
        m, k = rank("x", shapes["x"], 2)
        n, k2 = matrix(shapes, "w", parameters)
        same("inner extents", k, k2)
        return [m, n]
    if op in ("softmax", "rms_norm", "layer_norm"):
        rows, columns = rank("x", shapes["x"], 2)
        for name in {"softmax": [], "rms_norm": ["w"], "layer_norm": ["w", "b"]}[op]:
            same("columns", columns, *rank(name, shapes[name], 1))
        return [rows, columns]
    if op == "swiglu_mlp":
        m, k = rank("x", shapes["x"], 2)
        gate, up, down = (matrix(shapes, name, parameters) for name in ("gate", "up", "down"))
        same("columns", k, gate[1], up[1], down[0])
        same("inner extents", gate[0], up[0], down[1])
        return [m, k]
    raise Unsupported(f"no operation {op}")


def input_names(op, parameters):
    fixed = {"gemm": ["a", "b"], "softmax": ["x"], "rms_norm": ["x", "w"], "layer_norm": ["x", "w", "b"]}
    if op in fixed:
        return fixed[op]
    weights = {"project": ["w"], "swiglu_mlp": ["gate", "up", "down"]}.get(op, [])
    return ["x"] + [part for name in weights for part in matrix_names(name, parameters)]


# What each operation knows, so that one that is misspelt is not taken for its default.
PARAMETERS = {
    "gemm": {"transpose_b"},
    "project": {"bits", "group"},
    "swiglu_mlp": {"bits", "group"},
    "softmax": set(),
    "rms_norm": {"eps", "rounding"},
    "layer_norm": {"eps"},
}


class Kernels:
    packages = ()
    functions = {}

    def __init__(self):
        self.cases = {}
        self.next = 1
        self.operations = {
            f"kernel_{name}": getattr(self, name) for name in ("prepare", "fill", "poison", "run", "output", "release")
        }

    def versions(self):
        return environment.versions(*self.packages)

    def settings(self):
        return {**environment.settings(), "kernels": sorted(self.functions)}

    def case(self, arguments):
        case = self.cases.get(arguments["handle"])
        if case is None:
            raise Refusal(f"no handle {arguments['handle']}")
        return case

    def prepare(self, arguments, exchange):
        op, parameters, lines = arguments["op"], arguments["parameters"], arguments["inputs"]
        if op not in self.functions:
            raise Unsupported(f"no operation {op}; it has {', '.join(sorted(self.functions))}")
        if unknown := set(parameters) - PARAMETERS[op]:
            raise Refusal(f"{op} has no parameter {', '.join(sorted(unknown))}")
        names = input_names(op, parameters)
        if sorted(names) != sorted(lines):
            raise Refusal(f"{op} takes {', '.join(names)}; {', '.join(lines)} came")
        shape = output_shape(op, parameters, {name: line["shape"] for name, line in lines.items()})
        if math.prod(shape) == 0:
            raise Refusal(f"an output of shape {shape}")
        inputs = {name: self.get(exchange, lines[name]) for name in names}
        dtype = lines[names[0]]["dtype"]
        case = self.functions[op](parameters, arguments["variant"], inputs, shape)
        case.inputs, case.dtypes, case.shapes = inputs, {n: lines[n]["dtype"] for n in names}, {n: lines[n]["shape"] for n in names}
        # Compiles, and shows what comes out.
        case.result = case.compute(case.inputs)
        line = self.put(exchange, case.result)
        if (line["dtype"], line["shape"]) != (dtype, shape):
            raise Refusal(f"{op} gives {line['dtype']} {line['shape']}, not {dtype} {shape}")
        exchange.discard(line)
        self.poison_case(case)
        handle, self.next = self.next, self.next + 1
        self.cases[handle] = case
        return {
            "handle": handle,
            "outputs": [{"name": "out", "dtype": dtype, "shape": shape}],
            "notes": case.notes,
        }

    def fill(self, arguments, exchange):
        case = self.case(arguments)
        for name, line in arguments["inputs"].items():
            if name not in case.inputs:
                raise Refusal(f"no input {name}")
            if (line["dtype"], line["shape"]) != (case.dtypes[name], case.shapes[name]):
                wanted = f"{case.dtypes[name]} {case.shapes[name]}"
                raise Refusal(f"{name} is {wanted}; {line['dtype']} {line['shape']} came")
        for name, line in arguments["inputs"].items():
            self.replace(case, name, self.get(exchange, line))

    def poison_case(self, case):
        case.result = None
        if case.out is not None:
            self.spoil(case.out)

    def poison(self, arguments, exchange):
        self.poison_case(self.case(arguments))

    def run(self, arguments, exchange):
        case, times = self.case(arguments), arguments["times"]
        if not 1 <= times <= MOST_RUNS:
            raise Refusal(f"{times} runs")
        compute, inputs, clock, seconds = case.compute, case.inputs, time.perf_counter, []
        for _ in range(times):
            start = clock()
            result = compute(inputs)
            seconds.append(clock() - start)
        case.result = result
        return {"seconds": seconds}

    def output(self, arguments, exchange):
        case = self.case(arguments)
        if case.result is None:
            raise Refusal("no run since it was prepared or poisoned")
        return {"outputs": [{"name": "out", "tensor": self.put(exchange, case.result)}]}

    def release(self, arguments, exchange):
        self.case(arguments)
        del self.cases[arguments["handle"]]

    def replace(self, case, name, array):
        case.inputs[name] = array


def rounding(parameters):
    """`final`: FP32 until the final cast. `before_weight`: the normalized value is rounded before the weight."""
    policy = parameters.get("rounding", "final")
    if policy not in ("final", "before_weight"):
        raise Refusal(f"no rounding policy {policy}")
    return policy


def eps(parameters):
    if not isinstance(parameters.get("eps"), float):
        raise Refusal("eps is missing")
    return parameters["eps"]
