"""SparseTensor in its three forms and OrtValues of it, beside onnxruntime's: what they tell, what is refused and with
which class; and their dense forms."""
import numpy as np
import onnxruntime
import package
import pytest
from onnx import TensorProto as T, helper

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)

import nacre  # noqa: E402
from nacre import _sparse  # noqa: E402

BOTH = [nacre, onnxruntime]
VALUES, PLACES = np.float32([1, 2, 3]), np.int64([1, 4, 8])
PAIRS = np.int64([[0, 1], [1, 1], [2, 2]])
DENSE = np.float32([[0, 1, 0], [0, 2, 0], [0, 0, 3]])


def cpu(ort):
    return ort.OrtDevice.make("cpu", 0)


def coo(ort, values=VALUES, places=PLACES, shape=(3, 3)):
    return ort.SparseTensor.sparse_coo_from_numpy(list(shape), values, places, cpu(ort))


def csr(ort, inner=(1, 1, 2), outer=(0, 1, 2, 3), shape=(3, 3)):
    return ort.SparseTensor.sparse_csr_from_numpy(list(shape), VALUES, np.int64(inner), np.int64(outer), cpu(ort))


def told(x):
    return x.dense_shape(), x.data_type(), x.device_name(), x.format().name, x.values().tolist()


@pytest.mark.parametrize("make", [coo, lambda o: coo(o, places=PAIRS), csr,
                                  lambda o: coo(o, np.float64([]), np.int64([]), (0, 4)),
                                  lambda o: coo(o, np.array(["a", "b", "c"])), lambda o: coo(o, np.int8([1, 2, 3]))])
def test_tells_the_same(make):
    mine, theirs = (make(o) for o in BOTH)
    assert told(mine) == told(theirs)


def test_places():
    for made in (coo, lambda o: coo(o, places=PAIRS)):
        mine, theirs = (made(o).as_coo_view().indices() for o in BOTH)
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)
    mine, theirs = (csr(o).as_csrc_view() for o in BOTH)
    assert np.array_equal(mine.inner(), theirs.inner()) and np.array_equal(mine.outer(), theirs.outer())


def raised(call):
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value).__name__


@pytest.mark.parametrize("wrong", [
    lambda o: coo(o).as_csrc_view(), lambda o: coo(o).as_blocksparse_view(), lambda o: csr(o).as_coo_view(),
    lambda o: coo(o, places=np.int64([1, 2])), lambda o: coo(o, VALUES.reshape(1, 3)),
    lambda o: csr(o, outer=(0, 1, 2)), lambda o: csr(o, shape=(3, 3, 1)), lambda o: csr(o, inner=(1, 2)),
    lambda o: o.SparseTensor(3), lambda o: coo(o).to_cuda(o.OrtDevice.make("cuda", 0)),
    lambda o: o.OrtValue.ortvalue_from_numpy(VALUES).as_sparse_tensor(),
    lambda o: o.OrtValue.ort_value_from_sparse_tensor(None),
    lambda o: o.OrtValue.ort_value_from_sparse_tensor(coo(o)).numpy(),
    lambda o: o.OrtValue.ort_value_from_sparse_tensor(coo(o)).data_ptr()])
def test_refuses_with_the_same_class(wrong):
    assert raised(lambda: wrong(nacre)) == raised(lambda: wrong(onnxruntime))


def test_values_of_runs():
    def seen(o):
        v = o.OrtValue.ort_value_from_sparse_tensor(coo(o))
        return (v.is_tensor(), v.is_sparse_tensor(), v.is_tensor_sequence(), v.data_type(), v.has_value(), v.shape(),
                v.element_type(), v.device_name(), v.as_sparse_tensor().values().tolist())
    assert seen(nacre) == seen(onnxruntime)


def test_dense_forms():
    blocks = nacre.SparseTensor.blocksparse_from_numpy([4, 6], np.float32(np.arange(12)).reshape(2, 2, 3),
                                                       np.int32([[0, 1], [1, 0]]), cpu(nacre))
    whole = np.zeros((4, 6), np.float32)
    whole[:2, 3:], whole[2:, :3] = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
    assert np.array_equal(_sparse.dense(blocks), whole) and blocks.as_blocksparse_view().indices().dtype == np.int32
    for made in (coo(nacre), coo(nacre, places=PAIRS), csr(nacre)):
        assert np.array_equal(_sparse.dense(made), DENSE)
    back = _sparse.from_dense(DENSE)
    assert told(back) == told(coo(nacre)) and np.array_equal(back.as_coo_view().indices(), PLACES)
    texts = coo(nacre, np.array(["a", "b", "c"]))
    assert _sparse.dense(texts).tolist() == [["", "a", ""], ["", "b", ""], ["", "", "c"]]


@pytest.mark.parametrize("ort", BOTH)
def test_rows_without_elements(ort):
    nothing = np.array([], np.int64)
    made = ort.SparseTensor.sparse_csr_from_numpy([3, 4], np.float32([]), nothing, nothing, cpu(ort))
    assert made.dense_shape() == [3, 4] and made.values().size == 0 and made.as_csrc_view().inner().size == 0
    if ort is nacre:
        assert np.array_equal(_sparse.dense(made), np.zeros((3, 4)))


@pytest.mark.parametrize("wrong", [lambda: coo(nacre, places=np.int64([1, 4, 99])),
                                   lambda: csr(nacre, inner=(1, 1, 7)), lambda: csr(nacre, outer=(0, 1, 9, 3))])
def test_places_outside_of_the_shape(wrong):
    with pytest.raises(nacre.InvalidArgument, match=r"a sparse tensor of shape \[3, 3\]"):
        _sparse.dense(wrong())


# ---- sessions ----

def product():
    """y = a b, with a sparse."""
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [helper.make_sparse_tensor_value_info("a", T.FLOAT, [3, 3]),
                                            value("b", T.FLOAT, [3, "n"])], [value("y", T.FLOAT, [3, "n"])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.parametrize("ort", BOTH)
@pytest.mark.parametrize("make", [lambda o: coo(o, places=PAIRS), csr])
def test_a_sparse_input(ort, make):
    session = ort.InferenceSession(product(), providers=["CPUExecutionProvider"])
    told_of_a = session.get_inputs()[0]
    assert (told_of_a.type, told_of_a.shape) == ("sparse_tensor(float)", [3, 3])
    b = np.arange(12, dtype=np.float32).reshape(3, 4)
    a = ort.OrtValue.ort_value_from_sparse_tensor(make(ort))
    y, = session.run_with_ort_values(["y"], {"a": a, "b": ort.OrtValue.ortvalue_from_numpy(b)})
    assert y.is_tensor() and y.data_type() == "tensor(float)"
    np.testing.assert_array_equal(y.numpy(), DENSE @ b)


def test_ways_to_feed_a_sparse_input():
    session = nacre.InferenceSession(product())
    b = np.arange(6, dtype=np.float32).reshape(3, 2)
    for a in (coo(nacre), csr(nacre), nacre.OrtValue.ort_value_from_sparse_tensor(coo(nacre)), DENSE):
        np.testing.assert_array_equal(session.run(None, {"a": a, "b": b})[0], DENSE @ b)
    wrong = coo(nacre, np.float32([1]), np.int64([0]), (3, 4))
    with pytest.raises(nacre.InvalidArgument, match="'a'"):
        session.run(None, {"a": wrong, "b": b})


def given_out(values=None):
    """The output is a sparse initializer."""
    sparse = helper.make_sparse_tensor(helper.make_tensor("y", T.FLOAT, [3], VALUES if values is None else values),
                                       helper.make_tensor("", T.INT64, [3], PLACES), [3, 3])
    graph = helper.make_graph([], "g", [], [helper.make_sparse_tensor_value_info("y", T.FLOAT, [3, 3])],
                              sparse_initializer=[sparse])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("ort", BOTH)
def test_a_sparse_output(ort):
    session = ort.InferenceSession(given_out(), providers=["CPUExecutionProvider"])
    value, = session.run_with_ort_values(["y"], {})
    assert value.is_sparse_tensor() and not value.is_tensor()
    sparse = value.as_sparse_tensor()
    assert isinstance(sparse, ort.SparseTensor) and sparse.dense_shape() == [3, 3]
    np.testing.assert_array_equal(sparse.values(), VALUES)
    np.testing.assert_array_equal(sparse.as_coo_view().indices(), PLACES)
    np.testing.assert_array_equal(session.run(None, {})[0].values(), VALUES)


@pytest.mark.parametrize("ort", BOTH)
@pytest.mark.parametrize("values, left", [([1, 0, 3], [0, 2]), ([1, -0.0, 3], [0, 1, 2]), ([0, 0, 0], []),
                                          ([np.nan, 2, np.inf], [0, 1, 2])], ids=str)
def test_zeros_of_a_sparse_output(ort, values, left):
    """An initializer's zeros are not there in what a run gives; a zero below 0 is."""
    session = ort.InferenceSession(given_out(values), providers=["CPUExecutionProvider"])
    sparse = session.run_with_ort_values(["y"], {})[0].as_sparse_tensor()
    np.testing.assert_array_equal(sparse.values(), np.float32(values)[left])
    np.testing.assert_array_equal(np.signbit(sparse.values()), np.signbit(np.float32(values)[left]))
    np.testing.assert_array_equal(sparse.as_coo_view().indices().ravel(), np.array(PLACES)[left])


@pytest.mark.parametrize("ort", BOTH)
@pytest.mark.parametrize("make", [lambda o: coo(o, np.float32([1, 0, 3]), places=PAIRS), csr])
def test_a_sparse_input_that_is_the_output(ort, make):
    """It comes back as it was given: zeros, pairs of coordinates, rows."""
    told_of = helper.make_sparse_tensor_value_info("a", T.FLOAT, [3, 3])
    model = helper.make_model(helper.make_graph([], "g", [told_of], [told_of]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    session, given = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]), make(ort)
    value, = session.run_with_ort_values(["a"], {"a": ort.OrtValue.ort_value_from_sparse_tensor(given)})
    back = value.as_sparse_tensor()
    assert back.format() == given.format()
    np.testing.assert_array_equal(back.values(), given.values())


def test_a_sparse_output_of_a_binding():
    session = nacre.InferenceSession(given_out())
    binding = session.io_binding()
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    assert binding.get_outputs()[0].is_sparse_tensor()


def test_a_saved_model_keeps_sparse_types(tmp_path):
    options = nacre.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "m.onnx")
    nacre.InferenceSession(product(), options)
    again = nacre.InferenceSession(options.optimized_model_filepath)
    assert [a.type for a in again.get_inputs()] == ["sparse_tensor(float)", "tensor(float)"]


@pytest.mark.parametrize("ort", BOTH)
def test_what_a_sparse_tensor_shows_cannot_be_changed(ort):
    sparse = coo(ort)
    assert not sparse.values().flags.writeable and not sparse.as_coo_view().indices().flags.writeable


def test_a_sequence_of_sparse_tensors_is_refused():
    kind = helper.make_sequence_type_proto(helper.make_sparse_tensor_type_proto(T.FLOAT, [3]))
    node, x = helper.make_node("SequenceLength", ["x"], ["y"]), helper.make_value_info("x", kind)
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", T.INT64, [])])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    with pytest.raises(nacre.NotImplemented, match="'x': sparse_tensor_type inside of another type"):
        nacre.InferenceSession(data)
