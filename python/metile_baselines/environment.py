"""What decides a library's speed and arithmetic from outside: versions, threads, device, BLAS."""

import ctypes
import importlib.metadata
import os
import sys

DEVICE = os.environ.get("METILE_WORKER_DEVICE", "cpu")
THREADS = int(os.environ.get("METILE_WORKER_THREADS", "1"))

# Variables that libraries read, and that a report therefore names.
VARIABLES = (
    "MLX_ENABLE_TF32",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_VISIBLE_DEVICES",
    "PYTORCH_CUDA_ALLOC_CONF",
)


def versions(*packages):
    found = {"python": sys.version.split()[0]}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def settings():
    return {
        "device": DEVICE,
        "threads": THREADS,
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


class DlInfo(ctypes.Structure):
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def library_of(symbol):
    """The path of the shared library that a symbol of the process's global scope, preloaded libraries first, is found in,
    or None. Libraries that Python modules load for themselves are not in that scope."""
    scope = ctypes.CDLL(None)
    if not hasattr(scope, symbol):
        return None
    info = DlInfo()
    found = scope.dladdr(ctypes.cast(getattr(scope, symbol), ctypes.c_void_p), ctypes.byref(info))
    return info.path.decode() if found and info.path else None


def openblas_build(path):
    """What an OpenBLAS says of itself, such as `OpenBLAS 0.3.21 … Zen MAX_THREADS=64`, or None if it is none."""
    library = ctypes.CDLL(path)
    if not hasattr(library, "openblas_get_config"):
        return None
    library.openblas_get_config.restype = ctypes.c_char_p
    return library.openblas_get_config().decode().strip()
