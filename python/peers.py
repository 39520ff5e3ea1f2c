"""Times what other libraries take for the cases of `metile bench peers`.

Reads one JSON object a line, {"peer", "case", "rows", "cols", "model", "repeats"}, and answers each with one,
{"seconds": [...]} or {"error": "..."}; before the first, writes {"versions": {...}}. Inputs are made and outputs allocated before anything is timed.
Needs numpy and onnxruntime (with onnx, to write its models); mkl, torch, llama-cpp-python and transformers (with
gguf) are used if they are installed.
The number of threads is taken from METILE_THREADS.
"""

import ctypes
import glob
import importlib.metadata
import json
import os
import sys
import time

THREADS = int(os.environ["METILE_THREADS"])
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402  (its BLAS reads the variables when it is loaded)


def noise(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def onnx_session(case, rows, cols):
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    f32 = TensorProto.FLOAT
    vector = [cols]
    if case == "gemm":
        inputs = {"x": noise(rows, rows), "y": noise(rows, rows)}
        node = helper.make_node("MatMul", ["x", "y"], ["out"])
        shape = [rows, rows]
    elif case == "softmax":
        inputs = {"x": noise(rows, cols)}
        node = helper.make_node("Softmax", ["x"], ["out"], axis=-1)
        shape = [rows, cols]
    elif case == "rms_norm":
        inputs = {"x": noise(rows, cols), "w": noise(*vector)}
        node = helper.make_node("SimplifiedLayerNormalization", ["x", "w"], ["out"], axis=-1, epsilon=1e-5, stash_type=1)
        shape = [rows, cols]
    else:
        inputs = {"x": noise(rows, cols), "w": noise(*vector), "b": noise(*vector)}
        node = helper.make_node("LayerNormalization", ["x", "w", "b"], ["out"], axis=-1, epsilon=1e-5)
        shape = [rows, cols]
    values = [helper.make_tensor_value_info(n, f32, v.shape) for n, v in inputs.items()]
    graph = helper.make_graph([node], case, values, [helper.make_tensor_value_info("out", f32, shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
    binding.bind_ortvalue_output("out", ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)))
    return lambda: session.run_with_iobinding(binding)


def mkl_gemm(n):
    paths = glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so*"))
    if not paths:
        raise RuntimeError("mkl is not installed")
    library = ctypes.CDLL(paths[0])
    library.MKL_Set_Num_Threads(ctypes.c_int(THREADS))
    a, b, c = noise(n, n), noise(n, n), np.zeros((n, n), np.float32)
    pointer = lambda x: x.ctypes.data_as(ctypes.c_void_p)
    i, f = ctypes.c_int, ctypes.c_float
    return lambda: library.cblas_sgemm(
        i(101), i(111), i(111), i(n), i(n), i(n), f(1), pointer(a), i(n), pointer(b), i(n), f(0), pointer(c), i(n)
    )


def torch_rows(case, rows, cols, compiled):
    import torch
    from torch.nn import functional

    torch.set_num_threads(THREADS)
    x, w = torch.from_numpy(noise(rows, cols)), torch.from_numpy(noise(cols))
    out, side = torch.empty_like(x), torch.empty(rows, 1)
    if compiled:
        compute = {
            "softmax": lambda x, w: torch.softmax(x, -1),
            "rms_norm": lambda x, w: functional.rms_norm(x, [cols], w, 1e-5),
            "layer_norm": lambda x, w: functional.layer_norm(x, [cols], w, w, 1e-5),
        }[case]
        run = torch.compile(lambda x, w, out: out.copy_(compute(x, w)), dynamic=False)
        return lambda: run(x, w, out)
    if case == "softmax":
        return lambda: torch.softmax(x, -1, out=out)
    if case == "layer_norm":
        norm, means, scales = torch.ops.aten.native_layer_norm.out, side, torch.empty(rows, 1)
        return lambda: norm(x, [cols], w, w, 1e-5, out0=out, out1=means, out2=scales)
    raise RuntimeError("no such case with an output of its own")


def token_ids(count, vocabulary):
    return [n * 7919 % vocabulary for n in range(count)]


def llama_cpp(case, tokens, path):
    """Evaluations alone: `eval` leaves logits in place and samples nothing; the decode loop takes their argmax."""
    from llama_cpp import Llama

    model = Llama(path, n_ctx=tokens + 8, n_batch=512, n_threads=THREADS, n_threads_batch=THREADS, verbose=False)
    ids = token_ids(tokens + 1, model.n_vocab())

    def run():
        model.reset()
        if case == "prefill":
            start = time.perf_counter()
            model.eval(ids[:tokens])
            return time.perf_counter() - start
        model.eval(ids[:1])
        start = time.perf_counter()
        for token in ids[1:]:
            model.eval([token])
            int(np.ctypeslib.as_array(model._ctx.get_logits(), shape=(model.n_vocab(),)).argmax())
        return time.perf_counter() - start

    return run


def transformers(case, tokens, path):
    """Weights dequantized to f32, the dynamic cache."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(THREADS)
    folder, name = os.path.split(path)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
    ids = torch.tensor([token_ids(tokens + 1, model.config.vocab_size)])

    @torch.inference_mode()
    def run():
        if case == "prefill":
            start = time.perf_counter()
            model(ids[:, :tokens], logits_to_keep=1)
            return time.perf_counter() - start
        cache = model(ids[:, :1]).past_key_values
        start = time.perf_counter()
        for n in range(1, tokens + 1):
            result = model(ids[:, n : n + 1], past_key_values=cache)
            int(result.logits.argmax())
        return time.perf_counter() - start

    return run


def prepare(peer, case, rows, cols, model):
    """A function that does the case once; it may give the seconds of the part that counts."""
    if case in ("prefill", "decode"):
        engines = {"llama.cpp": llama_cpp, "transformers": transformers}
        return engines[peer](case, rows, model)
    if peer == "onnxruntime":
        return onnx_session(case, rows, cols)
    if peer == "numpy" and case == "gemm":
        a, b, c = noise(rows, rows), noise(rows, rows), np.zeros((rows, rows), np.float32)
        return lambda: np.matmul(a, b, out=c)
    if peer == "mkl" and case == "gemm":
        return mkl_gemm(rows)
    if peer in ("torch", "torch_compiled"):
        return torch_rows(case, rows, cols, peer == "torch_compiled")
    raise RuntimeError(f"{peer} has no {case}")


def versions():
    found = {"python": sys.version.split()[0]}
    for name in ("numpy", "onnxruntime", "mkl", "torch", "llama-cpp-python", "transformers"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def main():
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"versions": versions()}), file=answers, flush=True)
    prepared = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = tuple(request[name] for name in ("peer", "case", "rows", "cols", "model"))
        try:
            if key not in prepared:
                prepared[key] = prepare(*key)
                prepared[key]()
            run, seconds = prepared[key], []
            for _ in range(request["repeats"]):
                start = time.perf_counter()
                counted = run()
                whole = time.perf_counter() - start
                seconds.append(counted if isinstance(counted, float) else whole)
            answer = {"seconds": seconds}
        except Exception as error:  # the peer may not be installed: say so, and go on
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


main()
