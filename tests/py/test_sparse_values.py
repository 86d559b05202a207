"""SparseTensor in its three forms and OrtValues of it, beside onnxruntime's: what they tell, what is refused and with
which class; and their dense forms."""
import numpy as np
import onnxruntime
import package
import pytest

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


@pytest.mark.parametrize("wrong", [lambda: coo(nacre, places=np.int64([1, 4, 99])),
                                   lambda: csr(nacre, inner=(1, 1, 7)), lambda: csr(nacre, outer=(0, 1, 9, 3))])
def test_places_outside_of_the_shape(wrong):
    with pytest.raises(nacre.InvalidArgument, match=r"a sparse tensor of shape \[3, 3\]"):
        _sparse.dense(wrong())
