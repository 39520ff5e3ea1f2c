"""PyTorch's operations."""

import torch
from torch.nn import functional

from .kernels import Case, Kernels, eps, rounding
from .pytorch_arrays import DEVICE, get, put, settings

PREALLOCATED = "into an output allocated before"
ALLOCATES = "PyTorch allocates the output inside the timed call"


def unpacked(i, name, bits, group):
    """The affine weights' values: PyTorch has no public operation on MLX's packed groups."""
    words = i[f"{name}_q"].view(torch.int32)
    shifts = torch.arange(0, 32, bits, device=words.device, dtype=torch.int32)
    values = (words[..., None] >> shifts) & ((1 << bits) - 1)
    scales, biases = i[f"{name}_scales"], i[f"{name}_biases"]
    grouped = values.view(words.shape[0], -1, group).to(scales.dtype)
    return (grouped * scales[..., None] + biases[..., None]).view(words.shape[0], -1)


def complete():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


class Part(Kernels):
    packages = ("torch", "triton", "numpy")

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

    def settings(self):
        return {**super().settings(), **settings()}

    def get(self, exchange, line):
        return get(exchange, line)

    def put(self, exchange, array):
        return put(exchange, array)

    def spoil(self, out):
        out.fill_(float("nan"))

    def made(self, variant, inputs, shape, compute, said, into=None):
        """`compute` gives a new tensor of the inputs by name, `into` writes the result to `out`."""
        out = torch.empty(shape, dtype=next(iter(inputs.values())).dtype, device=DEVICE)
        if variant == "compiled":
            names = list(inputs)
            # One graph with the copy: the compiler writes to the output where it computes.
            copied = lambda out, *tensors: out.copy_(compute(dict(zip(names, tensors))))  # noqa: E731
            compiled = torch.compile(copied, dynamic=False, fullgraph=True)

            def run(inputs):
                compiled(out, *(inputs[name] for name in names))
                complete()
                return out

            return Case(run, [f"torch.compile({said})", PREALLOCATED], out)
        if into is not None:

            def run(inputs):
                into(inputs, out)
                complete()
                return out

            return Case(run, [said, PREALLOCATED], out)

        def run(inputs):
            result = compute(inputs)
            complete()
            return result

        return Case(run, [said, ALLOCATES])

    def gemm(self, parameters, variant, inputs, shape):
        b = (lambda i: i["b"].T) if parameters.get("transpose_b") else (lambda i: i["b"])
        return self.made(
            variant,
            inputs,
            shape,
            lambda i: i["a"] @ b(i),
            "torch.matmul",
            into=lambda i, out: torch.matmul(i["a"], b(i), out=out),
        )

    def weights(self, parameters, name):
        if parameters.get("bits") is None:
            return lambda i: i[name]
        bits, group = parameters["bits"], parameters["group"]
        return lambda i: unpacked(i, name, bits, group)

    def said(self, parameters):
        if parameters.get("bits") is None:
            return "torch.matmul"
        return (
            "weights dequantized inside the timed call, then torch.matmul: PyTorch has no public operation on affine groups"
        )

    def project(self, parameters, variant, inputs, shape):
        w = self.weights(parameters, "w")
        return self.made(
            variant,
            inputs,
            shape,
            lambda i: i["x"] @ w(i).T,
            self.said(parameters),
            into=lambda i, out: torch.matmul(i["x"], w(i).T, out=out),
        )

    def swiglu_mlp(self, parameters, variant, inputs, shape):
        gate, up, down = (self.weights(parameters, name) for name in ("gate", "up", "down"))

        def compute(i):
            x = i["x"]
            return x + (functional.silu(x @ gate(i).T) * (x @ up(i).T)) @ down(i).T

        return self.made(variant, inputs, shape, compute, f"x + down(silu(gate x) · up x): {self.said(parameters)}")

    def softmax(self, parameters, variant, inputs, shape):
        return self.made(
            variant,
            inputs,
            shape,
            lambda i: torch.softmax(i["x"], -1),
            "torch.softmax",
            into=lambda i, out: torch.softmax(i["x"], -1, out=out),
        )

    def rms_norm(self, parameters, variant, inputs, shape):
        small, width = eps(parameters), [shape[1]]
        if rounding(parameters) == "final":
            compute, said = (lambda i: functional.rms_norm(i["x"], width, i["w"], small)), "torch.nn.functional.rms_norm"
        else:

            def compute(i):
                x = i["x"].float()
                normalized = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + small)
                return i["w"] * normalized.to(i["x"].dtype)

            said = "RMSNorm of PyTorch operations as Transformers writes it, rounded before the weight"
        return self.made(variant, inputs, shape, compute, said)

    def layer_norm(self, parameters, variant, inputs, shape):
        small, width = eps(parameters), [shape[1]]
        # Statistics are float32 for 16-bit inputs on some devices; these take whatever comes first.
        probe = torch.native_layer_norm(inputs["x"], width, inputs["w"], inputs["b"], small)
        means, scales = torch.empty_like(probe[1]), torch.empty_like(probe[2])
        native = torch.ops.aten.native_layer_norm.out

        def into(i, out):
            native(i["x"], width, i["w"], i["b"], small, out0=out, out1=means, out2=scales)

        compute = lambda i: functional.layer_norm(i["x"], width, i["w"], i["b"], small)  # noqa: E731
        return self.made(variant, inputs, shape, compute, "torch.native_layer_norm", into=into)
