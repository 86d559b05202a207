"""The public C API (include/nacre/nacre.h, nacre_train.h) through ctypes, for tests.

Numbers travel as numpy arrays, string tensors as arrays of str, sequences as lists, optionals as Optional. Every
failure is a NacreError that carries the code's name, the node, the operator and the text. This is no Python package of
the library: it copies what goes in and what comes out, and knows nothing that the headers do not say.
"""
import ctypes as C
import os
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["NACRE_LIB"]).parent if "NACRE_LIB" in os.environ else ROOT / "build" / "release"
LIBRARY = pathlib.Path(os.environ.get("NACRE_LIB", BUILD / "libnacre.so"))
PROGRAM = BUILD / "nacre"
DEVICE = os.environ.get("NACRE_TEST_DEVICE")  # of sessions that do not say theirs; tests/gpu/run.sh has it be cuda

STAGES = ("graph", "inferred", "transformed", "differentiated", "lowered", "program", "instance")

# ONNX's numbers of element types that numpy has too. bfloat16 travels as its bits.
STRING, BFLOAT16 = 8, 16
NUMPY_OF = {1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
            10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 14: np.complex64, 15: np.complex128,
            16: np.uint16}
TYPE_OF = {np.dtype(t): number for number, t in NUMPY_OF.items() if number != BFLOAT16}
# Types of the package ml_dtypes, by name, with their bits. Those of fewer than 8 bits travel packed.
NARROW = {17: ("float8_e4m3fn", 8), 18: ("float8_e4m3fnuz", 8), 19: ("float8_e5m2", 8), 20: ("float8_e5m2fnuz", 8),
          21: ("uint4", 4), 22: ("int4", 4), 23: ("float4_e2m1fn", 4), 24: ("float8_e8m0fnu", 8), 25: ("uint2", 2),
          26: ("int2", 2), 27: ("float6_e2m3fn", 6), 28: ("float6_e3m2fn", 6)}
NARROW_OF = {name: number for number, (name, _) in NARROW.items()}
KIND_TENSOR, KIND_OPTIONAL = 0, 2


class ErrorStruct(C.Structure):
    _fields_ = [("code", C.c_int), ("node", C.c_char * 96), ("op", C.c_char * 64), ("text", C.c_char * 512)]


class Stats(C.Structure):
    _fields_ = [(name, C.c_uint64) for name in (
        "plans", "instances", "runs", "frames", "captures", "replays", "bytes_frames", "bytes_frames_peak",
        "device_allocations", "device_bytes", "device_bytes_peak", "packed", "bytes_session", "bytes_session_peak")]


class Plan(C.Structure):
    _fields_ = [("size", C.c_size_t), ("rows", C.c_void_p), ("n_rows", C.c_size_t), ("n_steps", C.c_size_t)] + [
        (name, C.c_size_t * 2) for name in ("bytes_frame", "bytes_constants", "bytes_packed", "bytes_state",
                                            "bytes_outputs")] + [("n_unknown", C.c_size_t)]


class Gradients(C.Structure):
    _fields_ = [("size", C.c_size_t), ("ys", C.c_void_p), ("xs", C.c_void_p), ("stop", C.c_void_p),
                ("n_ys", C.c_size_t), ("n_xs", C.c_size_t), ("n_stop", C.c_size_t), ("cotangents", C.c_int),
                ("standard", C.c_int)]


class ArtifactsWanted(C.Structure):
    _fields_ = [("size", C.c_size_t), ("trainable", C.c_void_p), ("n_trainable", C.c_size_t), ("frozen", C.c_void_p),
                ("n_frozen", C.c_size_t),
                *((name, C.c_char_p) for name in ("loss", "reduction", "loss_input", "target")),
                ("outputs", C.c_void_p), ("n_outputs", C.c_size_t), ("optimizer", C.c_char_p),
                *((name, C.c_float) for name in ("beta1", "beta2", "epsilon", "weight_decay")),
                ("no_bias_correction", C.c_int), ("max_norm", C.c_float),
                *((name, C.c_char_p) for name in ("folder", "prefix", "format")), ("nominal", C.c_int),
                ("standard", C.c_int), ("momentum", C.c_float), ("dampening", C.c_float), ("nesterov", C.c_int),
                ("compute", C.c_char_p), ("ort_format", C.c_int)]


class TrainingSources(C.Structure):
    _fields_ = [("size", C.c_size_t), *((name, C.c_char_p) for name in ("train", "eval", "optimizer")),
                *((f"{name}_bytes", C.c_void_p) for name in ("train", "eval", "optimizer")),
                *((f"n_{name}_bytes", C.c_size_t) for name in ("train", "eval", "optimizer")),
                ("device", C.c_char_p), ("seed", C.c_uint64)]


class NacreError(Exception):
    def __init__(self, e):
        self.number, self.code = e.code, lib.nacre_code_name(e.code).decode()
        self.node, self.op, self.text = (s.decode(errors="replace") for s in (e.node, e.op, e.text))
        place = " ".join(filter(None, (self.op, f"'{self.node}'" if self.node else "")))
        super().__init__(f"{self.code}: {place + ': ' if place else ''}{self.text}")


lib = C.CDLL(str(LIBRARY))
P, S, N = C.c_void_p, C.c_char_p, C.c_size_t
_ERR = C.POINTER(ErrorStruct)
_SIGNATURES = {
    # name: (result, arguments before the error); result None: a code, and an error goes last
    "nacre_code_name": (S, [C.c_int]), "nacre_version": (S, []),
    "nacre_env_create": (None, [C.c_int, P]), "nacre_env_release": ("void", [P]),
    "nacre_env_load_plugin": (None, [P, S]), "nacre_env_describe_device": (None, [P, S, P, N]),
    "nacre_value_tensor": (None, [C.c_int, C.c_int, P, P, P]),
    "nacre_value_strings": (None, [C.c_int, P, P, P]), "nacre_value_sequence": (None, [C.c_int, P, N, P]),
    "nacre_value_optional": (None, [C.c_int, P, P]),
    "nacre_value_release": ("void", [P]), "nacre_value_kind": (C.c_int, [P]), "nacre_value_type": (C.c_int, [P]),
    "nacre_value_rank": (C.c_int, [P]), "nacre_value_dims": (C.POINTER(C.c_int64), [P]),
    "nacre_value_count": (C.c_int64, [P]), "nacre_value_data": (P, [P]),
    "nacre_value_string": (P, [P, C.c_int64, C.POINTER(N)]), "nacre_value_item": (P, [P, C.c_int64]),
    "nacre_model_load": (None, [P, S, P]), "nacre_model_load_bytes": (None, [P, S, N, P]),
    "nacre_model_parse": (None, [P, S, P]), "nacre_model_save": (None, [P, S]),
    "nacre_model_optimize": (None, [P, S, P, N]), "nacre_log_set_sink": ("void", [P, P]),
    "nacre_model_save_external": (None, [P, S, S, N]), "nacre_model_release": ("void", [P]),
    "nacre_options_create": (None, [P]), "nacre_options_release": ("void", [P]),
    "nacre_options_set": (None, [P, S, S]), "nacre_options_tie": (None, [P, S, S]),
    "nacre_options_cut": (None, [P, S, P, N]), "nacre_options_gradients": (None, [P, S, P, N]),
    "nacre_options_backward": (None, [P, P, N, P, N]), "nacre_options_sgd": (None, [P, S, P, N, S]),
    "nacre_session_create": (None, [P, P, P, P]), "nacre_session_release": ("void", [P]),
    "nacre_session_n_inputs": (N, [P]), "nacre_session_n_outputs": (N, [P]),
    "nacre_session_input_name": (S, [P, N]), "nacre_session_output_name": (S, [P, N]),
    "nacre_session_dump": (None, [P, S, P]), "nacre_free": ("void", [P]),
    "nacre_session_input_dim_names": ("void", [P, N, P]), "nacre_session_plan": (None, [P, P, P, N, P]),
    "nacre_session_stats": ("void", [P, P]), "nacre_run": (None, [P, P, P, P, N, P, N, P]),
    "nacre_frame_create": (None, [P, P, P]), "nacre_frame_input": (None, [P, S, P]),
    "nacre_frame_run": (None, [P, S]), "nacre_frame_output": (None, [P, S, P]), "nacre_frame_release": ("void", [P]),
    "nacre_state_get": (None, [P, P, S, P]), "nacre_state_set": (None, [P, P, S, P]),
    "nacre_state_reset": (None, [P, P]), "nacre_state_is_dirty": (C.c_int, [P, P]),
    "nacre_model_gradients": (None, [P, P]), "nacre_artifacts_write": (None, [P, P]),
    "nacre_checkpoint_load": (None, [S, P]), "nacre_checkpoint_save": (None, [P, S, S, C.c_int]),
    "nacre_checkpoint_release": ("void", [P]), "nacre_training_create": (None, [P, P, P, P]),
    "nacre_training_release": ("void", [P]), "nacre_training_n_outputs": (N, [P, C.c_int]),
    "nacre_training_step": (None, [P, P, N, P, N]), "nacre_training_update": (None, [P, P]),
    "nacre_training_reset": ("void", [P]), "nacre_training_sync": (None, [P]),
}
for _name, (_result, _args) in _SIGNATURES.items():
    _function = getattr(lib, _name)
    _function.restype = C.c_int if _result is None else None if _result == "void" else _result
    _function.argtypes = _args + ([_ERR] if _result is None else [])


def call(name, *args):
    """Calls a function that returns a code; raises NacreError when it is not OK."""
    error = ErrorStruct()
    if getattr(lib, name)(*args, C.byref(error)):
        raise NacreError(error)


def made(name, *args):
    """As call, for functions whose last argument before the error receives an object."""
    out = P()
    call(name, *args, C.byref(out))
    return out.value


def _names(names):
    return (S * (len(names) + 1))(*[n.encode() for n in names])


# ---- values ----

class Optional:
    """An optional input: item is an array, a list or None; element, ONNX's number of its type, is needed for None."""

    def __init__(self, item, element=1):
        self.item, self.element = item, element


def _tensor_type(x):
    if isinstance(x, (list, tuple)):
        return _tensor_type(x[0]) if x else 1
    dtype = np.asarray(x).dtype
    if dtype.kind in "OSU":
        return STRING
    if dtype.name == "bfloat16":  # an extension type of the package ml_dtypes
        return BFLOAT16
    if dtype.name in NARROW_OF:
        return NARROW_OF[dtype.name]
    if dtype not in TYPE_OF:
        raise TypeError(f"the C API has no element type for numpy's {dtype}")
    return TYPE_OF[dtype]


def _value(x):
    """A value for x and what must stay alive with it."""
    if isinstance(x, Optional):
        item, alive = (None, None) if x.item is None else _value(x.item)
        try:
            return made("nacre_value_optional", x.element if x.item is None else _tensor_type(x.item), item), alive
        finally:
            lib.nacre_value_release(item)
    if isinstance(x, (list, tuple)):
        items = [_value(i) for i in x]
        handles = (P * (len(items) + 1))(*[v for v, _ in items])
        try:
            return made("nacre_value_sequence", _tensor_type(x), handles, len(items)), items
        finally:
            for v, _ in items:
                lib.nacre_value_release(v)
    x = np.asarray(x)
    dims = (C.c_int64 * (x.ndim + 1))(*x.shape)
    if _tensor_type(x) == STRING:
        texts = [s if isinstance(s, bytes) else str(s).encode() for s in x.ravel()]
        return made("nacre_value_strings", x.ndim, dims, (S * (len(texts) + 1))(*texts)), texts
    number, x = _tensor_type(x), x if x.flags.c_contiguous else x.copy(order="C")
    if number in NARROW:
        x = _packed(x, NARROW[number][1])
    return made("nacre_value_tensor", number, len(dims) - 1, dims, x.ctypes.data if x.size else None), x


def _packed(x, bits):
    """The codes of x as a stream of bits, the first element lowest."""
    codes = np.unpackbits(x.reshape(-1).view(np.uint8).reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
    return np.packbits(codes.reshape(-1), bitorder="little")


def _unpacked(data, shape, number):
    import ml_dtypes
    name, bits = NARROW[number]
    n = int(np.prod(shape))
    codes = np.zeros((n, 8), np.uint8)
    codes[:, :bits] = np.unpackbits(data, bitorder="little", count=n * bits).reshape(n, bits)
    if name.startswith("int") and n:  # ml_dtypes keeps the sign spread
        codes[:, bits:] = codes[:, bits - 1:bits]
    return np.packbits(codes, axis=1, bitorder="little").reshape(shape).view(getattr(ml_dtypes, name))


def _strings(v, shape):
    out, n = np.empty(shape, dtype=object), N()
    flat = out.reshape(-1)
    for i in range(flat.size):
        p = lib.nacre_value_string(v, i, C.byref(n))
        flat[i] = C.string_at(p, n.value).decode()
    return out


def _array(v):
    """A copy of a value as numpy sees it. bfloat16 comes as float32, an optional as its item or None."""
    if lib.nacre_value_kind(v) == KIND_OPTIONAL:
        item = lib.nacre_value_item(v, 0)
        return _take(item) if item else None
    if lib.nacre_value_kind(v) != KIND_TENSOR:
        items = [lib.nacre_value_item(v, i) for i in range(lib.nacre_value_count(v))]
        try:
            return [_array(i) for i in items]
        finally:
            for i in items:
                lib.nacre_value_release(i)
    number = lib.nacre_value_type(v)
    dims = lib.nacre_value_dims(v)
    shape = tuple(dims[i] for i in range(lib.nacre_value_rank(v)))
    if number == STRING:
        return _strings(v, shape)
    if number in NARROW:
        data = np.empty((int(np.prod(shape)) * NARROW[number][1] + 7) // 8, np.uint8)
        if data.size:
            C.memmove(data.ctypes.data, lib.nacre_value_data(v), data.nbytes)
        return _unpacked(data, shape, number)
    out = np.empty(shape, dtype=NUMPY_OF[number])
    if out.size:
        C.memmove(out.ctypes.data, lib.nacre_value_data(v), out.nbytes)
    return (out.astype(np.uint32) << 16).view(np.float32) if number == BFLOAT16 else out


def _take(v):
    try:
        return _array(v)
    finally:
        lib.nacre_value_release(v)


# ---- environment, model, options ----

class Handle:
    """Owns one C object; released once, at close or when forgotten."""
    release = None

    def __init__(self, handle):
        self.handle = handle

    def close(self):
        handle, self.handle = self.handle, None
        if handle:
            getattr(lib, self.release)(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "handle", None) and lib is not None:
            self.close()


class Env(Handle):
    release = "nacre_env_release"

    def __init__(self, threads=0):
        super().__init__(made("nacre_env_create", threads))

    def describe(self, device):
        text = C.create_string_buffer(256)
        call("nacre_env_describe_device", self.handle, device.encode(), text, len(text))
        return text.value.decode()

    def model(self, source):
        """source: an onnx ModelProto, its bytes, a text graph, or a path."""
        if hasattr(source, "SerializeToString"):
            source = source.SerializeToString()
        if isinstance(source, bytes):
            return Model(made("nacre_model_load_bytes", self.handle, source, len(source)), self)
        if isinstance(source, pathlib.Path):
            return Model(made("nacre_model_load", self.handle, str(source).encode()), self)
        return Model(made("nacre_model_parse", self.handle, source.encode()), self)

    def session(self, source, options=None, **settings):
        return Session(self, self.model(source), options or Options(**settings))


class Model(Handle):
    release = "nacre_model_release"

    def __init__(self, handle, env):
        super().__init__(handle)
        self.env = env

    def save(self, path):
        call("nacre_model_save", self.handle, str(path).encode())

    def optimize(self, level):
        call("nacre_model_optimize", self.handle, level.encode(), None, 0)

    def save_external(self, path, data_name, min_bytes):
        call("nacre_model_save_external", self.handle, str(path).encode(), data_name.encode(), min_bytes)

    def differentiate(self, ys, xs):
        """An output grad:X for each x."""
        ys, xs = _names(ys), _names(xs)
        what = Gradients(size=C.sizeof(Gradients), ys=C.addressof(ys), xs=C.addressof(xs), n_ys=len(ys) - 1,
                         n_xs=len(xs) - 1)
        call("nacre_model_gradients", self.handle, C.byref(what))
        return self

    def artifacts(self, folder, trainable=(), frozen=(), **texts):
        """Writes the files of a training session; texts: loss, loss_input and others by the struct's names."""
        trains, stays = _names(trainable), _names(frozen)
        what = ArtifactsWanted(size=C.sizeof(ArtifactsWanted), trainable=C.addressof(trains),
                               n_trainable=len(trainable), frozen=C.addressof(stays), n_frozen=len(frozen),
                               folder=str(folder).encode(),
                               **{name: text.encode() for name, text in texts.items() if text})
        call("nacre_artifacts_write", self.handle, C.byref(what))


class Options(Handle):
    release = "nacre_options_release"

    def __init__(self, **settings):
        super().__init__(made("nacre_options_create"))
        for key, value in ({"device": DEVICE} | settings if DEVICE else settings).items():
            self.set(key, value)

    def set(self, key, value):
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        call("nacre_options_set", self.handle, key.encode(), text.encode())
        return self

    def tie(self, source, target):
        call("nacre_options_tie", self.handle, source.encode(), target.encode())
        return self

    def cut(self, name, outputs):
        call("nacre_options_cut", self.handle, name.encode(), _names(outputs), len(outputs))
        return self

    def gradients(self, loss, wrt):
        call("nacre_options_gradients", self.handle, loss.encode(), _names(wrt), len(wrt))
        return self

    def backward(self, outputs, wrt):
        call("nacre_options_backward", self.handle, _names(outputs), len(outputs), _names(wrt), len(wrt))
        return self

    def sgd(self, loss, params, lr_input):
        call("nacre_options_sgd", self.handle, loss.encode(), _names(params), len(params), lr_input.encode())
        return self


# ---- sessions ----

class Session(Handle):
    release = "nacre_session_release"

    def __init__(self, env, model, options):
        self.env = env
        taken, model.handle = model.handle, None
        super().__init__(made("nacre_session_create", env.handle, taken, options.handle))

    @property
    def inputs(self):
        return [lib.nacre_session_input_name(self.handle, i).decode()
                for i in range(lib.nacre_session_n_inputs(self.handle))]

    @property
    def outputs(self):
        return [lib.nacre_session_output_name(self.handle, i).decode()
                for i in range(lib.nacre_session_n_outputs(self.handle))]

    def run(self, feeds, outputs=None):
        """Runs on {name: array}; gives {name: array} for the outputs asked for, or all."""
        wanted = self.outputs if outputs is None else list(outputs)
        values = [_value(x) for x in feeds.values()]
        results = (P * (len(wanted) + 1))()
        try:
            call("nacre_run", self.handle, None, _names(list(feeds)), (P * (len(values) + 1))(*[v for v, _ in values]),
                 len(values), _names(wanted), len(wanted), results)
            return {name: _array(results[i]) for i, name in enumerate(wanted)}
        finally:
            for v in [v for v, _ in values] + [r for r in results if r]:
                lib.nacre_value_release(v)

    def frame(self):
        return Frame(self)

    def get(self, variable):
        return _take(made("nacre_state_get", self.handle, None, variable.encode()))

    def set(self, variable, x):
        v, _alive = _value(x)
        try:
            call("nacre_state_set", self.handle, None, variable.encode(), v)
        finally:
            lib.nacre_value_release(v)

    def reset(self):
        call("nacre_state_reset", self.handle, None)

    @property
    def dirty(self):
        return bool(lib.nacre_state_is_dirty(self.handle, None))

    @property
    def stats(self):
        out = Stats()
        lib.nacre_session_stats(self.handle, C.byref(out))
        return out

    def sizes(self, feeds):
        """{name: size} of the dims that the model names, as these feeds have them; sums and the like are left out."""
        found = {}
        for i, name in enumerate(self.inputs):
            names = ((C.c_char * 64) * 16)()
            lib.nacre_session_input_dim_names(self.handle, i, names)
            found |= {n.value.decode().strip('"'): d for n, d in zip(names, np.shape(feeds[name]))}
        return {n: d for n, d in found.items() if self.has_dim(n)}

    def has_dim(self, name):
        try:
            return bool(self.plan({name: 1}))
        except NacreError:
            return False

    def plan(self, sizes):
        """The memory of a run with these sizes of named dims; without its rows."""
        out = Plan(size=C.sizeof(Plan))
        call("nacre_session_plan", self.handle, _names(list(sizes)), (C.c_int64 * (len(sizes) + 1))(*sizes.values()),
             len(sizes), C.byref(out))
        lib.nacre_free(out.rows)
        return out

    def dump(self, stage):
        text = made("nacre_session_dump", self.handle, stage.encode())
        try:
            return C.string_at(text).decode()
        finally:
            lib.nacre_free(text)


class Frame(Handle):
    """A run that can stop at a cut. Inputs are kept alive as long as the frame is."""
    release = "nacre_frame_release"

    def __init__(self, session):
        super().__init__(made("nacre_frame_create", session.handle, None))
        self.session, self.alive = session, []

    def input(self, name, x):
        v, alive = _value(x)
        self.alive.append(alive)
        try:
            call("nacre_frame_input", self.handle, name.encode(), v)
        finally:
            lib.nacre_value_release(v)

    def run(self, cut=None):
        call("nacre_frame_run", self.handle, cut.encode() if cut else None)

    def output(self, name):
        return _take(made("nacre_frame_output", self.handle, name.encode()))


# ---- training ----

class Checkpoint(Handle):
    release = "nacre_checkpoint_release"

    def __init__(self, path):
        super().__init__(made("nacre_checkpoint_load", str(path).encode()))

    def save(self, path, with_optimizer=True):
        call("nacre_checkpoint_save", self.handle, str(path).encode(), b"safetensors", with_optimizer)


class Training(Handle):
    """The models of a folder of artifacts over its checkpoint."""
    release = "nacre_training_release"

    def __init__(self, env, checkpoint, folder):
        self.env, self.checkpoint = env, checkpoint
        sources = TrainingSources(size=C.sizeof(TrainingSources),
                                  **{k: str(folder / f"{file}_model.onnx").encode() for k, file in (
                                      ("train", "training"), ("eval", "eval"), ("optimizer", "optimizer"))})
        super().__init__(made("nacre_training_create", env.handle, checkpoint.handle, C.byref(sources)))

    def step(self, *inputs):
        """Forward and backward; the outputs."""
        values = [_value(x) for x in inputs]
        out = (P * lib.nacre_training_n_outputs(self.handle, 0))()
        try:
            call("nacre_training_step", self.handle, (P * len(values))(*[v for v, _ in values]), len(values), out,
                 len(out))
        finally:
            for v, _ in values:
                lib.nacre_value_release(v)
        return [_take(v) for v in out]

    def update(self):
        call("nacre_training_update", self.handle, None)
        lib.nacre_training_reset(self.handle)

    def save(self, path):
        call("nacre_training_sync", self.handle)
        self.checkpoint.save(path)
