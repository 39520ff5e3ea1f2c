"""ONNX Runtime's operations, each a model of one node with its inputs and output bound."""

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from . import environment
from .kernels import Case, Kernels, eps, rounding
from .numpy_arrays import get, only_eager, put
from .protocol import Unsupported

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16}


class Part(Kernels):
    packages = ("onnxruntime", "onnx", "numpy")

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
        return {**super().settings(), "provider": "CPUExecutionProvider"}

    def get(self, exchange, line):
        return get(exchange, line)

    def put(self, exchange, value):
        return put(exchange, value.numpy())

    def spoil(self, out):
        out.update_inplace(np.full(out.shape(), np.nan, out.numpy().dtype))

    def replace(self, case, name, array):
        case.bound[name].update_inplace(array)

    def made(self, variant, inputs, shape, kind, **attributes):
        only_eager(variant, "ONNX Runtime")
        dtype = next(iter(inputs.values())).dtype
        if dtype not in TYPES:
            raise Unsupported(f"no {dtype}")
        node = helper.make_node(kind, list(inputs), ["out"], **attributes)
        value = lambda name, shape: helper.make_tensor_value_info(name, TYPES[dtype], shape)  # noqa: E731
        graph = helper.make_graph(
            [node], kind, [value(name, array.shape) for name, array in inputs.items()], [value("out", shape)]
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        options = ort.SessionOptions()
        options.intra_op_num_threads = environment.THREADS
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except ort.capi.onnxruntime_pybind11_state.NotImplemented as error:
            raise Unsupported(str(error)) from error
        binding = session.io_binding()
        bound = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, array in bound.items():
            binding.bind_ortvalue_input(name, array)
        out = ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, dtype))
        binding.bind_ortvalue_output("out", out)

        def run(_):
            session.run_with_iobinding(binding)
            return out

        case = Case(run, [f"one node, {kind}, its inputs and output bound before"], out)
        case.bound = bound
        return case

    def gemm(self, parameters, variant, inputs, shape):
        if parameters.get("transpose_b"):
            return self.made(variant, inputs, shape, "Gemm", transB=1)
        return self.made(variant, inputs, shape, "MatMul")

    def project(self, parameters, variant, inputs, shape):
        if parameters.get("bits") is not None:
            raise Unsupported("MatMulNBits has integer zero points, not MLX's biases")
        return self.made(variant, inputs, shape, "Gemm", transB=1)

    def softmax(self, parameters, variant, inputs, shape):
        return self.made(variant, inputs, shape, "Softmax", axis=-1)

    def rms_norm(self, parameters, variant, inputs, shape):
        if rounding(parameters) != "final":
            raise Unsupported("SimplifiedLayerNormalization rounds at the end")
        return self.made(
            variant, inputs, shape, "SimplifiedLayerNormalization", axis=-1, epsilon=eps(parameters), stash_type=1
        )

    def layer_norm(self, parameters, variant, inputs, shape):
        return self.made(variant, inputs, shape, "LayerNormalization", axis=-1, epsilon=eps(parameters))
