"""MLX's operations."""

import mlx.core as mx

from .kernels import Case, Kernels, eps, rounding
from .mlx_arrays import get, put, settings
from .protocol import Refusal

ALLOCATES = "MLX allocates the output inside the timed call"


class Part(Kernels):
    packages = ("mlx", "mlx-cpu", "mlx-cuda-13")

    def __init__(self):
        self.functions = {
            "gemm": self.gemm,
            "project": self.project,
            "softmax": self.softmax,
            "rms_norm": self.rms_norm,
            "layer_norm": self.layer_norm,
            "swiglu_mlp": self.swiglu_mlp,
        }
        super().__init__()
        self.operations["quantize"] = self.quantize

    def settings(self):
        return {**super().settings(), **settings()}

    def get(self, exchange, line):
        return get(exchange, line)

    def put(self, exchange, array):
        return put(exchange, array)

    def made(self, variant, names, compute, said):
        """A case that builds the graph in each call and evaluates it, or has it compiled."""
        if variant == "compiled":
            compiled = mx.compile(lambda *arrays: compute(dict(zip(names, arrays))))
            build = lambda inputs: compiled(*(inputs[name] for name in names))  # noqa: E731
            notes = [f"mx.compile({said})", ALLOCATES]
        else:
            build, notes = compute, [f"{said}, its graph built and evaluated in each call", ALLOCATES]

        def complete(inputs):
            result = build(inputs)
            mx.eval(result)
            return result

        return Case(complete, notes)

    def gemm(self, parameters, variant, inputs, shape):
        if parameters.get("transpose_b"):
            return self.made(variant, list(inputs), lambda i: i["a"] @ i["b"].T, "a @ b.T")
        return self.made(variant, list(inputs), lambda i: i["a"] @ i["b"], "a @ b")

    def product(self, parameters, name):
        """x wᵀ, and what it is called."""
        if parameters.get("bits") is None:
            return (lambda x, i: x @ i[name].T), "x @ w.T"
        bits, group = parameters["bits"], parameters["group"]

        def quantized(x, i):
            return mx.quantized_matmul(
                x, i[f"{name}_q"], i[f"{name}_scales"], i[f"{name}_biases"], transpose=True, group_size=group, bits=bits
            )

        return quantized, f"mx.quantized_matmul({bits} bits, groups of {group})"

    def project(self, parameters, variant, inputs, shape):
        product, said = self.product(parameters, "w")
        return self.made(variant, list(inputs), lambda i: product(i["x"], i), said)

    def swiglu_mlp(self, parameters, variant, inputs, shape):
        (gate, said), (up, _), (down, _) = (self.product(parameters, name) for name in ("gate", "up", "down"))

        def compute(i):
            x = i["x"]
            g = gate(x, i)
            return x + down(g * mx.sigmoid(g) * up(x, i), i)

        return self.made(variant, list(inputs), compute, f"x + down(silu(gate x) · up x) with {said}")

    def softmax(self, parameters, variant, inputs, shape):
        compute = lambda i: mx.softmax(i["x"], axis=-1, precise=True)  # noqa: E731
        return self.made(variant, ["x"], compute, "mx.softmax(precise=True)")

    def rms_norm(self, parameters, variant, inputs, shape):
        small = eps(parameters)
        if rounding(parameters) == "before_weight":
            compute, said = (lambda i: mx.fast.rms_norm(i["x"], i["w"], small)), "mx.fast.rms_norm"
        else:

            def compute(i):
                x = i["x"].astype(mx.float32)
                scale = mx.rsqrt(mx.mean(x * x, axis=-1, keepdims=True) + small)
                return (x * scale * i["w"].astype(mx.float32)).astype(i["x"].dtype)

            said = "RMSNorm of MLX operations in float32 until the final cast"
        return self.made(variant, list(inputs), compute, said)

    def layer_norm(self, parameters, variant, inputs, shape):
        small = eps(parameters)
        compute = lambda i: mx.fast.layer_norm(i["x"], i["w"], i["b"], small)  # noqa: E731
        return self.made(variant, list(inputs), compute, "mx.fast.layer_norm")

    def quantize(self, arguments, exchange):
        w = get(exchange, arguments["inputs"]["w"])
        bits, group = arguments["bits"], arguments["group"]
        if w.ndim != 2 or w.shape[1] % group:
            raise Refusal(f"weights of shape {list(w.shape)} in groups of {group}")
        parts = mx.quantize(w, group_size=group, bits=bits)
        mx.eval(parts)
        return {
            "outputs": [
                {"name": name, "tensor": put(exchange, part)} for name, part in zip(("q", "scales", "biases"), parts)
            ]
        }
