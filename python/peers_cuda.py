"""Times what PyTorch takes on a CUDA device for the cases of `metile bench peers --device cuda`.

Speaks as peers.py does. A sample is one replay of a CUDA graph of as many launches as the case has, divided by their
number; inputs are random, outputs preallocated where the operation takes them. FP32 products are IEEE FP32.
"""

import importlib.metadata
import json
import os
import sys
import time

# Libraries print what they like; the answers go to the pipe alone.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
LAUNCHES = {
    ("gemm", 1024): 100, ("gemm", 4096): 10, ("gemm", 8192): 4,
    ("project", 151936): 10, ("project", 3072): 100, ("chunk", 3072): 50,
    ("attention", 4096): 10, ("attention", 8192): 4,
    ("grouped_attention", 4096): 10, ("grouped_attention", 8192): 4,
    ("rows", 32): 100, ("rows", 256): 100, ("rows", 4096): 20,
}
CHUNK, HEADS = 2048, 16
ATTENTION = {"attention": 16, "grouped_attention": 8}


def noise(*shape, dtype):
    return (torch.rand(*shape, device="cuda") * 2 - 1).to(dtype)


def once(kernel, dtype, rows, cols):
    x, w = noise(rows, cols, dtype=dtype), noise(cols, dtype=dtype)
    out = torch.empty_like(x)
    if kernel == "gemm":
        b = noise(rows, cols, dtype=dtype)
        return lambda: torch.matmul(x, b, out=out)
    if kernel == "project":
        row, result = noise(1, cols, dtype=dtype), torch.empty(1, rows, device="cuda", dtype=dtype)
        return lambda: torch.matmul(row, x.t(), out=result)
    if kernel == "chunk":
        chunk, result = noise(CHUNK, cols, dtype=dtype), torch.empty(CHUNK, rows, device="cuda", dtype=dtype)
        return lambda: torch.matmul(chunk, x.t(), out=result)
    if kernel in ATTENTION:
        q = noise(1, HEADS, rows, cols, dtype=dtype)
        k, v = (noise(1, ATTENTION[kernel], rows, cols, dtype=dtype) for _ in range(2))
        return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    if kernel == "softmax":
        return lambda: torch.softmax(x, -1, out=out)
    if kernel == "rms_norm":
        return lambda: functional.rms_norm(x, [cols], w, 1e-5)
    if kernel == "layer_norm":
        return lambda: functional.layer_norm(x, [cols], w, w, 1e-5)
    return lambda: out.copy_(x)


def graph(name, rows, cols):
    kernel, dtype = name.rsplit("_", 1)
    run = once(kernel, DTYPES[dtype], rows, cols)
    kind = kernel if kernel in ("gemm", "project", "chunk", *ATTENTION) else "rows"
    launches = LAUNCHES[kind, rows] if kernel != "gemm" or dtype != "f32" else {1024: 50, 4096: 4}[rows]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        for _ in range(launches):
            run()

    def timed():
        torch.cuda.synchronize()
        start = time.perf_counter()
        recorded.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / launches

    return timed


def answer(value):
    print(json.dumps(value), file=ANSWERS, flush=True)


def main():
    versions = {"torch": importlib.metadata.version("torch"), "device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    answer({"versions": versions})
    known = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["case"], request["rows"], request["cols"]
        try:
            if key not in known:
                known.clear()
                known[key] = graph(*key)
            answer({"seconds": [known[key]() for _ in range(request["repeats"])]})
        except Exception as error:  # noqa: BLE001  (told to the caller)
            answer({"error": f"{type(error).__name__}: {error}"})


main()
