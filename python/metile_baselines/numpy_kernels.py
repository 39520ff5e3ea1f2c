"""NumPy's products, through the OpenBLAS of its wheel."""

import numpy as np

from .kernels import Case, Kernels
from .numpy_arrays import get, only_eager, only_f32, put


class Part(Kernels):
    packages = ("numpy",)

    def __init__(self):
        self.functions = {"gemm": self.gemm, "project": self.project}
        super().__init__()

    def settings(self):
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return {**super().settings(), "blas": f"{blas.get('name')} {blas.get('version')}"}

    def get(self, exchange, line):
        return get(exchange, line)

    def put(self, exchange, array):
        return put(exchange, array)

    def spoil(self, out):
        out.fill(np.nan)

    def made(self, variant, inputs, shape, left, right):
        only_eager(variant, "NumPy")
        only_f32(inputs, "NumPy")
        out = np.empty(shape, np.float32)
        compute = lambda i: np.matmul(i[left], right(i), out=out)  # noqa: E731
        return Case(compute, ["np.matmul", "into an output allocated before"], out)

    def gemm(self, parameters, variant, inputs, shape):
        transposed = parameters.get("transpose_b")
        return self.made(variant, inputs, shape, "a", lambda i: i["b"].T if transposed else i["b"])

    def project(self, parameters, variant, inputs, shape):
        return self.made(variant, inputs, shape, "x", lambda i: i["w"].T)
