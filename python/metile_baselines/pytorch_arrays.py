"""PyTorch's tensors as bytes, and what decides its speed."""

import torch

from . import environment

DEVICE = torch.device(environment.DEVICE)
DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "u32": torch.uint32,
    "i64": torch.int64,
    "u8": torch.uint8,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

torch.set_num_threads(environment.THREADS)
torch.set_grad_enabled(False)
# FP32 means FP32.
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
if DEVICE.type == "cuda":
    # A machine without a GPU fails here, and the hello says so.
    torch.zeros(1, device=DEVICE)


def put(exchange, tensor):
    """Writes a tensor."""
    name = NAMES[tensor.dtype]
    tensor = tensor.detach().contiguous().cpu()
    # NumPy knows no bfloat16; bytes are bytes.
    return exchange.put(name, tensor.shape, tensor.reshape(-1).view(torch.uint8).numpy())


def get(exchange, line):
    """Reads a tensor."""
    dtype, shape, data = exchange.get(line)
    if not data:
        return torch.empty(shape, dtype=DTYPES[dtype], device=DEVICE)
    return torch.frombuffer(data, dtype=DTYPES[dtype]).reshape(shape).to(DEVICE)


def settings():
    found = {
        "torch_threads": torch.get_num_threads(),
        "tf32": "off",
        "blas": blas(),
    }
    if DEVICE.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = torch.version.cuda
    return found


def blas():
    for line in torch.__config__.show().splitlines():
        if "Math Kernel Library" in line or "OpenBLAS" in line:
            return line.strip(" -")
    return "not said by torch.__config__"
