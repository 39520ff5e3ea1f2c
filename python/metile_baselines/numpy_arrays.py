"""NumPy's arrays as bytes, for workers whose library computes on host memory."""

import numpy as np

from .protocol import Unsupported

DTYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u8": np.uint8}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def get(exchange, line):
    if line["dtype"] not in DTYPES:
        raise Unsupported(f"no {line['dtype']}")
    dtype, shape, data = exchange.get(line)
    return np.frombuffer(data, DTYPES[dtype]).reshape(shape)


def put(exchange, array):
    return exchange.put(NAMES[array.dtype], array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def only_f32(inputs, library):
    for name, array in inputs.items():
        if array.dtype != np.float32:
            raise Unsupported(f"{library} here multiplies f32; {name} is {array.dtype}")


def only_eager(variant, library):
    if variant != "eager":
        raise Unsupported(f"{library} has no compiler")
