"""A baseline's worker: `worker.py NAME`. The protocol is described in docs/src/baselines.md."""

from metile_baselines import streams

requests, answers = streams.claim()

import importlib  # noqa: E402
import sys  # noqa: E402

from metile_baselines.protocol import Channel, serve  # noqa: E402

# The parts of each worker; each gives operations, and says of itself what a report needs.
WORKERS = {
    "mlx": ["mlx_model", "mlx_kernels"],
    "pytorch": ["pytorch_model", "pytorch_kernels"],
    "onnxruntime": ["onnxruntime_kernels"],
    "llama.cpp": ["llama_cpp_model"],
    "triton": ["triton_kernels"],
    "numpy": ["numpy_kernels"],
    "mkl": ["mkl_kernels"],
}


def parts(name):
    return [importlib.import_module(f"metile_baselines.{part}").Part() for part in WORKERS[name]]


if len(sys.argv) != 2 or sys.argv[1] not in WORKERS:
    sys.exit(f"usage: worker.py {'|'.join(WORKERS)}")
serve(sys.argv[1], Channel(requests, answers), lambda: parts(sys.argv[1]))
