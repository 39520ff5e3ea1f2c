"""Tensors as raw little-endian files in a shared folder, each with dtype, shape and SHA-256."""

import hashlib
import math
import os
import shutil
import tempfile

SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "i64": 8, "u8": 1}


class TensorError(Exception):
    """A tensor that is not what was announced."""

    kind = "tensor"


class Exchange:
    """The folder."""

    def __init__(self):
        self.folder = os.environ.get("METILE_EXCHANGE") or tempfile.mkdtemp()
        self.limit = int(os.environ.get("METILE_TENSOR_BYTES", 8 << 30))
        self.written = 0

    def put(self, dtype, shape, buffer):
        """Writes a C-contiguous buffer; gives what an answer says of it."""
        shape = [int(n) for n in shape]
        data = memoryview(buffer).cast("B")
        if data.nbytes != math.prod(shape) * SIZES[dtype]:
            raise TensorError(f"{data.nbytes} bytes are no {dtype} {shape}")
        if data.nbytes > self.limit:
            raise TensorError(f"{dtype} {shape} has {data.nbytes} bytes, and the limit is {self.limit}")
        name = f"out-{self.written}"
        self.written += 1
        with open(os.path.join(self.folder, name), "xb") as file:
            file.write(data)
        return {"file": name, "dtype": dtype, "shape": shape, "sha256": hashlib.sha256(data).hexdigest()}

    def get(self, line):
        """Reads what the driver wrote: dtype, shape and bytes."""
        name, dtype, shape = line["file"], line["dtype"], line["shape"]
        if not name.replace("-", "").isalnum():
            raise TensorError(f"{name!r} is not a plain name")
        size = math.prod(shape) * SIZES[dtype]
        path = os.path.join(self.folder, name)
        if size > self.limit or os.path.getsize(path) != size:
            raise TensorError(f"{name} has {os.path.getsize(path)} bytes; {dtype} {shape} has {size}")
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if (found := hashlib.sha256(data).hexdigest()) != line["sha256"]:
            raise TensorError(f"{name} has SHA-256 {found}, and {line['sha256']} was announced")
        return dtype, shape, data

    def discard(self, line):
        """Removes a tensor that was put but is not sent."""
        os.remove(os.path.join(self.folder, line["file"]))

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
