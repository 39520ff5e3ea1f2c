"""MKL's products, called directly."""

import ctypes
import glob
import os
import sys

import numpy as np

from . import environment
from .kernels import Case, Kernels
from .numpy_arrays import get, only_eager, only_f32, put

ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112


def library():
    paths = sorted(glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so*")))
    if not paths:
        raise ImportError("no libmkl_rt in this Python's environment: the package mkl is not installed")
    return ctypes.CDLL(paths[0])


class Part(Kernels):
    packages = ("mkl", "numpy")

    def __init__(self):
        self.functions = {"gemm": self.gemm, "project": self.project}
        super().__init__()
        self.mkl = library()
        self.mkl.MKL_Set_Num_Threads(ctypes.c_int(environment.THREADS))

    def settings(self):
        text = ctypes.create_string_buffer(300)
        self.mkl.MKL_Get_Version_String(text, ctypes.c_int(len(text)))
        return {**super().settings(), "blas": text.value.decode().strip()}

    def get(self, exchange, line):
        return get(exchange, line)

    def put(self, exchange, array):
        return put(exchange, array)

    def spoil(self, out):
        out.fill(np.nan)

    def made(self, variant, inputs, shape, left, right, transposed):
        only_eager(variant, "MKL")
        only_f32(inputs, "MKL")
        out = np.empty(shape, np.float32)
        (m, n), k = shape, inputs[left].shape[1]
        i, f = ctypes.c_int, ctypes.c_float
        pointer = lambda array: ctypes.c_void_p(array.ctypes.data)  # noqa: E731
        gemm, to = self.mkl.cblas_sgemm, pointer(out)

        def compute(inputs):
            gemm(
                *(i(ROW_MAJOR), i(AS_IT_IS), i(TRANSPOSED if transposed else AS_IT_IS), i(m), i(n), i(k), f(1)),
                *(pointer(inputs[left]), i(k), pointer(inputs[right]), i(k if transposed else n), f(0), to, i(n)),
            )
            return out

        return Case(compute, ["cblas_sgemm", "into an output allocated before"], out)

    def gemm(self, parameters, variant, inputs, shape):
        return self.made(variant, inputs, shape, "a", "b", bool(parameters.get("transpose_b")))

    def project(self, parameters, variant, inputs, shape):
        return self.made(variant, inputs, shape, "x", "w", True)
