"""MLX's arrays as bytes, and what decides its speed."""

import sys

import mlx.core as mx

from . import environment

DTYPES = {
    "f32": mx.float32,
    "f16": mx.float16,
    "bf16": mx.bfloat16,
    "i32": mx.int32,
    "u32": mx.uint32,
    "i64": mx.int64,
    "u8": mx.uint8,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

if environment.DEVICE == "cpu":
    mx.set_default_device(mx.cpu)
else:
    # A machine without a GPU fails here, and the hello says so.
    mx.set_default_device(mx.gpu)
    mx.eval(mx.zeros(1))


def put(exchange, array):
    """Writes an array."""
    name = NAMES[array.dtype]
    array = mx.contiguous(array)
    # Python's buffers know no bfloat16.
    raw = array.view(mx.uint16) if name == "bf16" else array
    mx.eval(raw)
    return exchange.put(name, array.shape, memoryview(raw))


def get(exchange, line):
    """Reads an array."""
    dtype, shape, data = exchange.get(line)
    array = mx.array(memoryview(data)) if data else mx.zeros([0], mx.uint8)
    array = array.view(DTYPES[dtype]).reshape(shape)
    mx.eval(array)
    return array


def settings():
    found = {"mlx_device": str(mx.default_device()), "tf32": "off (MLX_ENABLE_TF32=0)"}
    if environment.DEVICE == "cpu":
        found["blas"] = blas()
    else:
        found["gpu"] = {key: str(value) for key, value in mx.device_info().items()}
    return found


def blas():
    """The BLAS that products go through: a preloaded one comes before the wheel's."""
    path = environment.library_of("cblas_sgemm")
    if path is None:
        return "the wheel's own, a reference BLAS" if sys.platform == "linux" else "Accelerate"
    return environment.openblas_build(path) or path.rsplit("/", 1)[-1]
