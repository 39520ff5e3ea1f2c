"""Kernels in Triton, written as its tutorials write them: one program a row, rows of a power of two; products in blocks that
are tuned for their shape when they are prepared."""

import torch
import triton
import triton.language as tl

from .kernels import Case, Kernels, eps, rounding
from .protocol import Unsupported
from .pytorch_arrays import DEVICE, get, put, settings


@triton.jit
def softmax_rows(x, out, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    v = tl.load(x + at + lane, mask=lane < cols, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + at + lane, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=lane < cols)


@triton.jit
def rms_norm_rows(x, w, out, cols, small, BEFORE_WEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    v = tl.load(x + at + lane, mask=lane < cols, other=0.0).to(tl.float32)
    weight = tl.load(w + lane, mask=lane < cols, other=0.0).to(tl.float32)
    v = v * tl.rsqrt(tl.sum(v * v, axis=0) / cols + small)
    if BEFORE_WEIGHT:
        v = v.to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + at + lane, (v * weight).to(out.dtype.element_ty), mask=lane < cols)


@triton.jit
def layer_norm_rows(x, w, b, out, cols, small, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    inside = lane < cols
    v = tl.load(x + at + lane, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / cols
    v = tl.where(inside, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / cols + small)
    weight = tl.load(w + lane, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(b + lane, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at + lane, (v * scale * weight + bias).to(out.dtype.element_ty), mask=inside)


@triton.jit
def product_blocks(
    a, b, out, m, n, k, bk, bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr
):
    """out [m, n] = a [m, k] · b, b's element (l, j) at l·bk + j·bn. Blocks of the grid in groups of rows, so that neighbours
    share what they read."""
    program, tall, wide = tl.program_id(0), tl.cdiv(m, M), tl.cdiv(n, N)
    first = program // (GROUP * wide) * GROUP
    height = tl.minimum(tall - first, GROUP)
    row = first + program % (GROUP * wide) % height
    column = program % (GROUP * wide) // height
    i, j, l = row * M + tl.arange(0, M), column * N + tl.arange(0, N), tl.arange(0, K)
    at_a = a + i.to(tl.int64)[:, None] * k + l[None, :]
    at_b = b + l.to(tl.int64)[:, None] * bk + j.to(tl.int64)[None, :] * bn
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        x = tl.load(at_a, mask=(i[:, None] < m) & (l[None, :] < k - start), other=0.0)
        y = tl.load(at_b, mask=(l[:, None] < k - start) & (j[None, :] < n), other=0.0)
        # FP32 means FP32: without this it would be TF32.
        sums = tl.dot(x, y, sums, input_precision="ieee")
        at_a += K
        at_b += K * bk
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(out + i.to(tl.int64)[:, None] * n + j[None, :], sums.to(out.dtype.element_ty), mask=inside)


def config(m, n, k, warps, stages):
    return triton.Config({"M": m, "N": n, "K": k, "GROUP": 8}, num_warps=warps, num_stages=stages)


CONFIGS = [
    config(128, 256, 64, 8, 3),
    config(128, 128, 64, 8, 3),
    config(128, 128, 64, 4, 4),
    config(128, 64, 32, 4, 4),
    config(64, 128, 32, 4, 4),
    config(64, 64, 64, 4, 4),
    config(64, 64, 32, 4, 5),
    config(32, 64, 32, 2, 5),
    config(16, 64, 128, 4, 4),
    config(16, 32, 256, 4, 3),
]
tuned_product = triton.autotune(configs=CONFIGS, key=["m", "n", "k", "bk", "bn"])(product_blocks)


class Part(Kernels):
    packages = ("triton", "torch")

    def __init__(self):
        self.functions = {
            "gemm": self.gemm,
            "project": self.project,
            "softmax": self.softmax,
            "rms_norm": self.rms_norm,
            "layer_norm": self.layer_norm,
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

    def made(self, variant, inputs, shape, launch, said):
        if variant != "eager":
            raise Unsupported("Triton's kernels are compiled when they are prepared; there is one variant")
        out = torch.empty(shape, dtype=next(iter(inputs.values())).dtype, device=DEVICE)

        def run(inputs):
            launch(inputs, out)
            if DEVICE.type == "cuda":
                torch.cuda.synchronize()
            return out

        notes = [said, "into an output allocated before", "launched by Triton's own Python launcher"]
        return Case(run, notes, out)

    def product(self, variant, inputs, shape, a, b, transposed):
        (m, n), k = shape, inputs[a].shape[1]
        strides = (1, k) if transposed else (n, 1)
        grid = lambda meta: (triton.cdiv(m, meta["M"]) * triton.cdiv(n, meta["N"]),)  # noqa: E731

        def launch(i, out):
            tuned_product[grid](i[a], i[b], out, m, n, k, *strides)

        said = f"blocked product, tuned over {len(CONFIGS)} configurations, input_precision ieee"
        return self.made(variant, inputs, shape, launch, said)

    def gemm(self, parameters, variant, inputs, shape):
        return self.product(variant, inputs, shape, "a", "b", bool(parameters.get("transpose_b")))

    def project(self, parameters, variant, inputs, shape):
        if parameters.get("bits") is not None:
            raise Unsupported("no kernel for affine groups here")
        return self.product(variant, inputs, shape, "x", "w", True)

    def softmax(self, parameters, variant, inputs, shape):
        (rows, cols), block = shape, triton.next_power_of_2(shape[1])
        launch = lambda i, out: softmax_rows[(rows,)](i["x"], out, cols, BLOCK=block)  # noqa: E731
        return self.made(variant, inputs, shape, launch, "softmax, one program a row")

    def rms_norm(self, parameters, variant, inputs, shape):
        (rows, cols), block, small = shape, triton.next_power_of_2(shape[1]), eps(parameters)
        before = rounding(parameters) == "before_weight"

        def launch(i, out):
            rms_norm_rows[(rows,)](i["x"], i["w"], out, cols, small, BEFORE_WEIGHT=before, BLOCK=block)

        return self.made(variant, inputs, shape, launch, "RMSNorm, one program a row")

    def layer_norm(self, parameters, variant, inputs, shape):
        (rows, cols), block, small = shape, triton.next_power_of_2(shape[1]), eps(parameters)

        def launch(i, out):
            layer_norm_rows[(rows,)](i["x"], i["w"], i["b"], out, cols, small, BLOCK=block)

        return self.made(variant, inputs, shape, launch, "LayerNorm, one program a row")
