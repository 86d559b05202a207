"""Models of one node for every operator, version and element type that ONNX's schemas allow.

The shapes, attributes and values come from ONNX's own node cases; each case is retyped: one type variable of the schema
at a time takes every type that the schema names, and the data is converted so that it stays meaningful. Versions that
ask for another form than the case has are left to the hand-written cases of test_op_forms.py.
"""
import collections
import warnings
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Variant = collections.namedtuple("Variant", "op version type model feeds outputs")

# tensor(...) of a schema: ONNX's number and the type of numpy or ml_dtypes.
NAMES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
         "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
         "float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
         "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26, "float6e2m3": 27, "float6e3m2": 28}
# Control flow and sequences have no tensor type to vary; what draws numbers has no oracle; images are no numbers.
SKIPPED = {"If", "Loop", "Scan", "SequenceMap", "Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike",
           "RandomUniformLike", "Multinomial", "ImageDecoder", "Gradient"}
CASES_PER_OP = 4


def numpy_of(number):
    return object if number == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(number)


def plain(x):
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else x


def single_node_cases():
    """{(domain, op): cases}, the most different ones first."""
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    found = collections.defaultdict(dict)
    for case in cases:
        graph = case.model.graph
        if len(graph.node) != 1 or not case.data_sets or graph.node[0].op_type in SKIPPED or graph.initializer:
            continue
        if not all(v.type.HasField("tensor_type") for v in (*graph.input, *graph.output)):
            continue
        node = graph.node[0]
        form = (tuple(bool(n) for n in node.input), tuple(sorted(a.name for a in node.attribute)))
        found[node.domain, node.op_type].setdefault(form, []).append(case)
    chosen = {}
    for op, forms in found.items():
        rows = [list(c) for c in forms.values()]
        chosen[op] = []
        while len(chosen[op]) < CASES_PER_OP and any(rows):
            chosen[op] += [r.pop(0) for r in rows if r][:CASES_PER_OP - len(chosen[op])]
    return chosen


def retyped(x, number, never_zero):
    """x as elements of another type; floats become small integers, so that integer types have something to say."""
    x = np.asarray(x)
    to = np.dtype(numpy_of(number))
    if x.dtype == to:
        return x
    if x.dtype == object:
        seed = np.random.default_rng(zlib.crc32(repr(x.shape).encode()))
        x = seed.integers(-5, 6, x.shape).astype(np.float32)
    if number == TensorProto.STRING:
        return np.array([f"s{v:.3g}" for v in x.astype(np.float64).ravel()], dtype=object).reshape(x.shape)
    if x.dtype == np.bool_:
        x = x.astype(np.int64)
    name = to.name
    if number == TensorProto.BOOL:
        return x.astype(np.float64) > 0
    if x.dtype.kind == "c":
        x = x.real
    x = np.nan_to_num(x.astype(np.float64), posinf=9, neginf=-9)
    if "int" in name:
        x = np.rint(x if np.abs(x).max(initial=0) > 4 else x * 3)
        limit = {"int2": 1, "uint2": 3, "int4": 7, "uint4": 15}.get(name, 100)
        x = np.clip(np.abs(x) if name.startswith("u") else x, -limit, limit)
        if never_zero:
            x = np.where(x == 0, 1, x)
    elif number >= TensorProto.FLOAT8E4M3FN:
        x = np.clip(x, -4, 4) if number != TensorProto.FLOAT8E8M0 else np.abs(x) + 0.5
    with np.errstate(all="ignore"):
        return x.astype(to)


def formal(params, i):
    """The schema's parameter of operand i; the last one may stand for many."""
    return params[min(i, len(params) - 1)]


def valid(model):
    """Whether the other operands and the attributes, which are the case's own, go with the new type."""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


def variant(case, schema, variable, type_name):
    """The case with `variable` of the schema as another type; None when the form is not this version's."""
    node, number = case.model.graph.node[0], NAMES[type_name]
    attributes = {a.name for a in node.attribute}
    if not schema.min_input <= len(node.input) <= schema.max_input or not len(node.output) <= schema.max_output:
        return None
    if not attributes <= set(schema.attributes) or any(
            a.required and n not in attributes for n, a in schema.attributes.items()):
        return None
    takes = {}
    for names, params in ((node.input, schema.inputs), (node.output, schema.outputs)):
        takes |= {n: formal(params, i).type_str == variable for i, n in enumerate(names) if n}
    inputs, feeds = [], {}
    for i, (info, x) in enumerate(zip(case.model.graph.input, case.data_sets[0][0])):
        old = info.type.tensor_type.elem_type
        x = np.asarray(plain(x))
        if takes.get(info.name):
            x = retyped(x, number, node.op_type in ("Div", "Mod") and i == 1)
        if x.dtype.kind in "US":
            x = x.astype(object)
        inputs.append(helper.make_tensor_value_info(info.name, number if takes.get(info.name) else old, x.shape))
        feeds[info.name] = x
    outputs = [helper.make_tensor_value_info(
        o.name, number if takes.get(o.name) else o.type.tensor_type.elem_type, None) for o in case.model.graph.output]
    opsets = [helper.make_opsetid("", schema.since_version if schema.domain == "" else 18)]
    if schema.domain:
        opsets.append(helper.make_opsetid(schema.domain, schema.since_version))
    model = helper.make_model(helper.make_graph([node], "one", inputs, outputs), opset_imports=opsets)
    model.ir_version = min(model.ir_version, 12)
    if not valid(model):
        return None
    return Variant(node.op_type, schema.since_version, type_name, model, feeds, [o.name for o in outputs])


def schemas(domain, op):
    """All versions of an operator, newest first."""
    rows = [s for s in onnx.defs.get_all_schemas_with_history()
            if (s.domain, s.name) == (domain, op) and not s.deprecated]
    return sorted(rows, key=lambda s: -s.since_version)


def variables(schema):
    """{type variable: element types} of the tensor inputs."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    used = {p.type_str for p in schema.inputs}
    return {v: [t[7:-1] for t in allowed[v] if t.startswith("tensor(") and t[7:-1] in NAMES]
            for v in sorted(used & set(allowed))}


def variants(domain, op, cases):
    """Every variant of an operator."""
    for schema in schemas(domain, op):
        for variable, types in variables(schema).items():
            for type_name in types:
                for case in cases:
                    v = variant(case, schema, variable, type_name)
                    if v is not None:
                        yield v
