"""Models of classical learning (ai.onnx.ml) against onnxruntime: random ones made here, and, where skl2onnx is
installed, what it exports from scikit-learn."""
import itertools
import math

import numpy as np
import onnx
import onnxruntime
import package
import pytest
from onnx import TensorProto, helper

from tolerances import close

pytestmark = pytest.mark.skipif(not package.BUILT, reason="the Python package is not built")
onnxruntime.set_default_logger_severity(4)


def one_node(op, x, outputs, version=1, **attributes):
    kinds = {np.dtype(np.float32): 1, np.dtype(np.float64): 11, np.dtype(np.int64): 7, np.dtype(np.int32): 6,
             np.dtype(object): 8}
    node = helper.make_node(op, ["x"], [n for n, _ in outputs], domain="ai.onnx.ml", **attributes)
    infos = [t if not isinstance(t, int) else helper.make_tensor_value_info(n, t, None) for n, t in outputs]
    graph = helper.make_graph([node], "one", [helper.make_tensor_value_info("x", kinds[x.dtype], [None] * x.ndim)],
                              infos)
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]).SerializeToString()


def both(model, feeds, threads=(1,)):
    import nacre
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    want = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    return nacre.InferenceSession(model).run(None, feeds), want


def same(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want):
        if isinstance(w, list):
            assert isinstance(g, list) and [set(m) for m in g] == [set(m) for m in w]
            for a, b in zip(g, w):
                close(np.array([a[k] for k in sorted(a)]), np.array([b[k] for k in sorted(b)]), "model_f32")
            continue
        assert g.shape == w.shape and g.dtype == w.dtype, f"{g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
        if w.dtype.kind in "OiU":
            assert g.tolist() == w.tolist()
        else:
            close(g, w, "model_f32")


# ---- trees ----

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(rng, trees, depth, features, targets, kind, modes=MODES, low=-1.0):
    """Attributes of complete random trees; `kind` is target or class. Thresholds are few, so that x meets them."""
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                                    "falsenodeids", "missing_value_tracks_true")}
    b = {f"{kind}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for node in range(2 ** (depth + 1) - 1):
            leaf = node >= 2 ** depth - 1
            row = [tree, node, 0 if leaf else int(rng.integers(features)), 0.0 if leaf else float(rng.integers(-2, 3)),
                   "LEAF" if leaf else str(rng.choice(modes)), 0 if leaf else 2 * node + 1,
                   0 if leaf else 2 * node + 2, int(rng.integers(2))]
            for k, v in zip(a, row):
                a[k].append(v)
            for target in (targets if leaf else []):
                for k, v in zip(b, (tree, node, target, float(rng.uniform(low, 1)))):
                    b[k].append(v)
    return {**a, **b}


def table(rng, rows=37, features=5, dtype=np.float32):
    x = rng.integers(-2, 3, (rows, features)).astype(dtype)
    if dtype in (np.float32, np.float64):
        x[rng.random(x.shape) < 0.5] += 0.25
        x[rng.random(x.shape) < 0.1] = math.nan
    return x


@pytest.mark.parametrize("how,post,n", itertools.product(["SUM", "AVERAGE", "MIN", "MAX"], ["NONE", "SOFTMAX"], [1, 3]))
def test_tree_regressor(how, post, n):
    rng = np.random.default_rng(n)
    # One mode per forest: onnxruntime looks at missing values by another rule when modes are mixed.
    for dtype, mode in itertools.product([np.float32, np.float64], MODES):
        x = table(rng, dtype=dtype)
        same(*both(one_node("TreeEnsembleRegressor", x, [("y", 1)], n_targets=n, aggregate_function=how,
                            post_transform=post, base_values=[0.5 * k for k in range(n)],
                            **forest(rng, 6, 3, 5, range(n), "target", [mode])), {"x": x}))


@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("classes,voted", [(2, [0]), (2, [1]), (2, [0, 1]), (3, [0, 1, 2]), (4, [1, 3])])
@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("n_base", [0, 1, 2])
def test_tree_classifier(post, classes, voted, low, n_base):
    if classes == 2 and post == "PROBIT":
        pytest.skip("onnxruntime leaves the second score as it finds it")
    rng = np.random.default_rng(classes)
    x = table(rng)
    n_base = n_base if classes == 2 or n_base == 0 else classes
    # Of two classes that both get votes onnxruntime gives 0 or 1, whatever the labels are.
    numbers = [0, 1] if voted == [0, 1] else [7, 3, 5, 9][:classes]
    for labels in ({"classlabels_int64s": numbers}, {"classlabels_strings": list("abcd")[:classes]}):
        more = {"base_values": [0.25, -0.5, 0.125, 1.0][:n_base]} if n_base else {}
        y = 7 if "classlabels_int64s" in labels else 8
        model = one_node("TreeEnsembleClassifier", x, [("y", y), ("z", 1)], post_transform=post, **labels, **more,
                         **forest(rng, 5, 3, 5, voted, "class", ["BRANCH_LEQ"], low))
        same(*both(model, {"x": x}))


ROWS = [0, 1, 7, 15, 16, 100, 4111]  # few rows are shared out by trees, many by rows


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trees_of_any_number_of_rows(rows, dtype):
    rng = np.random.default_rng(rows)
    x = table(rng, rows, dtype=dtype)
    for n, trees, mode in ((2, 3, "BRANCH_LT"), (1, 150, "BRANCH_GTE")):
        same(*both(one_node("TreeEnsembleRegressor", x, [("y", 1)], n_targets=n,
                            **forest(rng, trees, 3, 5, range(n), "target", [mode])), {"x": x}))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_trees_over_integers(rows, dtype):
    rng = np.random.default_rng(rows)
    x = table(rng, rows, dtype=dtype)
    same(*both(one_node("TreeEnsembleClassifier", x, [("y", 7), ("z", 1)], classlabels_int64s=[7, 3, 5],
                        **forest(rng, 20, 3, 5, range(3), "class", ["BRANCH_GT"])), {"x": x}))


def test_trees_that_are_none_are_refused():
    import nacre
    rng = np.random.default_rng(0)
    x = table(rng)
    good = forest(rng, 2, 2, 5, [0], "target")
    for key, value, text in (("nodes_truenodeids", [0] * 14, "comes back"),
                             ("nodes_falsenodeids", [99] * 14, "no child"),
                             ("nodes_featureids", [-1] * 14, "feature -1"), ("target_ids", [5] * 8, "target 5"),
                             ("nodes_modes", ["BRANCH_UP"] * 14, "BRANCH_UP"), ("nodes_values", [1.0], "nodes_values")):
        with pytest.raises(Exception, match=text):
            nacre.InferenceSession(
                one_node("TreeEnsembleRegressor", x, [("y", 1)], n_targets=1, **{**good, key: value}))
    with pytest.raises(Exception, match="features"):
        nacre.InferenceSession(one_node("TreeEnsembleRegressor", x, [("y", 1)], n_targets=1, **good)).run(
            None, {"x": x[:, :1]})


# ---- the others ----

@pytest.mark.parametrize("post", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_linear(post, n):
    rng = np.random.default_rng(n)
    for dtype in (np.float32, np.float64, np.int64, np.int32):
        x = rng.integers(-4, 5, (33, 5)).astype(dtype)
        w, b = rng.standard_normal(5 * n).tolist(), rng.standard_normal(n).tolist()
        if dtype == np.float32:
            same(*both(one_node("LinearRegressor", x, [("y", 1)], coefficients=w, intercepts=b, targets=n,
                                post_transform=post), {"x": x}))
        for labels, y in (({"classlabels_ints": list(range(5, 5 + max(n, 2)))}, 7),
                          ({"classlabels_strings": ["p", "q", "r"][:max(n, 2)]}, 8)):
            same(*both(one_node("LinearClassifier", x, [("y", y), ("z", 1)], coefficients=w, intercepts=b,
                                post_transform=post, **labels), {"x": x}))


def test_encoders():
    words = np.array([["a", "c"], ["", "b"], ["z", "a"]], dtype=object)
    numbers = np.array([[3, -1], [7, 3], [0, 2]], np.int64)
    floats = np.float32([[1, math.nan], [math.nan, 4], [0, -1]])
    for model, x in (
            (one_node("OneHotEncoder", words, [("y", 1)], cats_strings=["a", "b"]), words),
            (one_node("OneHotEncoder", numbers, [("y", 1)], cats_int64s=[3, 7, -1]), numbers),
            (one_node("OneHotEncoder", floats[:1, :1], [("y", 1)], cats_int64s=[0, 1]), floats[:1, :1]),
            (one_node("CategoryMapper", words, [("y", 7)], cats_strings=["a", "b"], cats_int64s=[10, 20],
                      default_int64=-5), words),
            (one_node("CategoryMapper", numbers, [("y", 8)], cats_strings=["a", "b"], cats_int64s=[3, 7],
                      default_string="?"), numbers),
            (one_node("Imputer", floats, [("y", 1)], imputed_value_floats=[8.0, 9.0], replaced_value_float=math.nan),
             floats),
            (one_node("Imputer", floats, [("y", 1)], imputed_value_floats=[8.0], replaced_value_float=4.0), floats),
            (one_node("Imputer", numbers, [("y", 7)], imputed_value_int64s=[8, 9], replaced_value_int64=3), numbers)):
        same(*both(model, {"x": x}))


def test_one_hot_of_unknown_categories():
    import nacre
    words, numbers = np.array([["a", "b"], ["b", ""]], dtype=object), np.int64([[3, -1, 7]])
    good = ((words, {"cats_strings": ["b", "a", ""]}), (numbers, {"cats_int64s": [-1, 3, 7]}),
            (np.float32([1.7, 2]), {"cats_int64s": [2, 1]}), (np.float64([2]), {"cats_int64s": [2, 1]}),
            (np.zeros((0, 3), np.int64), {"cats_int64s": [2, 1]}), (np.array(7, np.int64), {"cats_int64s": [7]}))
    for x, cats in good:
        same(*both(one_node("OneHotEncoder", x, [("y", 1)], zeros=0, **cats), {"x": x}))
    bad = ((words, {"cats_strings": ["b", "a"]}, 3), (numbers, {"cats_int64s": [3, 7]}, 1),
           (np.float32([1, math.nan]), {"cats_int64s": [0, 1]}, 1), (np.float64([1e30]), {"cats_int64s": [0, 1]}, 0))
    for x, cats, at in bad:
        with pytest.raises(Exception, match=f"OneHotEncoder.*element {at} has none of the 2 categories"):
            nacre.InferenceSession(one_node("OneHotEncoder", x, [("y", 1)], zeros=0, **cats)).run(None, {"x": x})


def test_rows_given_as_vectors():
    x = np.float32([1, -2, 3])
    for op, outputs, more in (
            ("LinearRegressor", [("y", 1)], {"coefficients": [1.0, 2, 3, 4, 5, 6], "intercepts": [0.5, 1],
                                             "targets": 2}),
            ("LinearClassifier", [("y", 7), ("z", 1)], {"coefficients": [1.0, 2, 3, 4, 5, 6], "intercepts": [0.5, 1.0],
                                                        "classlabels_ints": [4, 5]}),
            ("SVMRegressor", [("y", 1)], {"n_supports": 1, "coefficients": [1.0], "support_vectors": [1.0, 2.0, 3.0],
                                          "rho": [0.5], "kernel_type": "LINEAR", "kernel_params": [1.0, 0.0, 0.0]}),
            ("Scaler", [("y", 1)], {"offset": [1.0, 2, 3], "scale": [1.0, 2, 3]}), ("Normalizer", [("y", 1)], {}),
            ("FeatureVectorizer", [("y", 1)], {"inputdimensions": [3]})):
        same(*both(one_node(op, x, outputs, **more), {"x": x}))


def test_features_of_many_dims_are_flattened():
    for shape in ((2, 3), (2, 1, 3), (2, 3, 1), (2, 3, 2, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        same(*both(one_node("FeatureVectorizer", x, [("y", 1)], inputdimensions=[x[0].size]), {"x": x}))


def test_columns_that_do_not_fit_are_refused():
    import nacre
    for op, more in (("Scaler", {"offset": [1.0, 2, 3]}), ("Scaler", {"scale": [1.0, 2, 3]}),
                     ("Imputer", {"imputed_value_floats": [1.0, 2, 3]})):
        for shape in ((), (2, 4)):
            x = np.zeros(shape, np.float32)
            model = onnx.load_from_string(one_node(op, x, [("y", 1)], **more))
            for k, n in enumerate(shape):
                model.graph.input[0].type.tensor_type.shape.dim[k].dim_value = n
            with pytest.raises(Exception, match=f"{op}.*(has no dims|3 elements for 4 columns)"):
                nacre.InferenceSession(model.SerializeToString())


# ---- maps ----

def map_node(op, key, value, out, **attributes):
    m = helper.make_value_info("m", helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, [])))
    graph = helper.make_graph([helper.make_node(op, ["m"], ["y"], domain="ai.onnx.ml", **attributes)], "one", [m],
                              [helper.make_tensor_value_info("y", out, None)])
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]).SerializeToString()


FLOAT, INT64, STRING, DOUBLE = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.DOUBLE


@pytest.mark.parametrize("key, value", [(STRING, FLOAT), (STRING, DOUBLE), (STRING, INT64), (INT64, FLOAT),
                                        (INT64, DOUBLE), (INT64, STRING)])
def test_dict_vectorizer(key, value):
    """onnxruntime's Python takes floats as values only; the others follow the standard."""
    import nacre
    keys = ["a", "", "c"] if key == STRING else [3, -5, 9]
    values = {FLOAT: [1.5, 2.5], DOUBLE: [1.5, 2.5], INT64: [4, -6], STRING: ["x", ""]}[value]
    words = {"string_vocabulary": keys} if key == STRING else {"int64_vocabulary": keys}
    model, m = map_node("DictVectorizer", key, value, value, **words), {keys[2]: values[1], keys[0]: values[0]}
    other = {keys[1]: values[0], ("zz" if key == STRING else 77): values[1]}
    if value == FLOAT:
        same(*both(model, {"m": m}))
        same(*both(model, {"m": other}))
    session, none = nacre.InferenceSession(model), "" if value == STRING else 0
    assert session.run(None, {"m": m})[0].tolist() == [[values[0], none, values[1]]]
    assert session.run(None, {"m": other})[0].tolist() == [[none, values[0], none]]


@pytest.mark.parametrize("to, out", [("TO_FLOAT", FLOAT), ("TO_STRING", STRING), ("TO_INT64", INT64)])
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_cast_map(to, out, form):
    import nacre
    attributes = {"cast_to": to, "map_form": form, "max_map": 6}
    for m in ({4: 2.5, 1: 1.5}, {0: -0.25, 5: 3.0, 6: 7.0, 99: 1.0}):
        same(*both(map_node("CastMap", INT64, FLOAT, out, **attributes), {"m": m}))
    texts = nacre.InferenceSession(map_node("CastMap", INT64, STRING, out, **attributes))
    want = {FLOAT: [1, 2.5], STRING: ["1", "2.5"], INT64: [1, 2]}[out]
    none = "0.f" if out == STRING else 0
    want = want if form == "DENSE" else [none, want[0], none, none, want[1], none]
    assert texts.run(None, {"m": {4: "2.5", 1: "1"}})[0].tolist() == [want]


def test_cast_map_refusals():
    import nacre
    for more, text in (({"cast_to": "TO_BYTES"}, "TO_BYTES"), ({"map_form": "THIN"}, "THIN"),
                       ({"map_form": "SPARSE", "max_map": 0}, "max_map is 0")):
        with pytest.raises(Exception, match=f"CastMap.*{text}"):
            nacre.InferenceSession(map_node("CastMap", INT64, FLOAT, FLOAT, **more))
    with pytest.raises(Exception, match="CastMap.*key -1 is negative"):
        nacre.InferenceSession(map_node("CastMap", INT64, FLOAT, FLOAT, map_form="SPARSE", max_map=3)).run(
            None, {"m": {-1: 1.0}})
    with pytest.raises(Exception, match="CastMap.*'x' is not a number"):
        nacre.InferenceSession(map_node("CastMap", INT64, STRING, FLOAT)).run(None, {"m": {1: "x"}})


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [4, 2, 9]}, {"classlabels_strings": ["x", "yy", ""]}])
def test_zip_map(labels):
    key = TensorProto.INT64 if "classlabels_int64s" in labels else TensorProto.STRING
    z = helper.make_value_info("z", helper.make_sequence_type_proto(helper.make_map_type_proto(
        key, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))
    for rows in (0, 1, 5):
        x = np.random.default_rng(rows).random((rows, 3), np.float32)
        same(*both(one_node("ZipMap", x, [("z", z)], **labels), {"x": x}))


# ---- scikit-learn ----

def estimators():
    from sklearn import ensemble, linear_model, neighbors, neural_network, preprocessing, svm, tree
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    return {
        "logistic": linear_model.LogisticRegression(max_iter=200),
        "linear": linear_model.LinearRegression(),
        "ridge": linear_model.Ridge(),
        "tree": tree.DecisionTreeClassifier(max_depth=5, random_state=0),
        "forest": ensemble.RandomForestClassifier(10, max_depth=5, random_state=0),
        "forest_regressor": ensemble.RandomForestRegressor(10, max_depth=5, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0),
        "scaled": make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=200)),
        "imputed": make_pipeline(SimpleImputer(), preprocessing.MinMaxScaler(),
                                 tree.DecisionTreeRegressor(max_depth=4)),
        "neighbours": neighbors.KNeighborsClassifier(3),
        "bayes": GaussianNB(),
        "perceptron": neural_network.MLPClassifier((16,), max_iter=50, random_state=0),
        "clusters": KMeans(3, n_init=1, random_state=0),
        "pca": make_pipeline(PCA(3), linear_model.Ridge()),
        "svc": svm.SVC(), "svc_probability": svm.SVC(probability=True, random_state=0), "svr": svm.SVR(),
        "linear_svc": svm.LinearSVC(),
    }


ESTIMATORS = ["logistic", "linear", "ridge", "tree", "forest", "forest_regressor", "boosting", "scaled",
              "imputed", "neighbours", "bayes", "perceptron", "clusters", "pca", "svc", "svc_probability",
              "svr", "linear_svc"]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_scikit_learn(name, classes):
    skl2onnx = pytest.importorskip("skl2onnx")
    rng = np.random.default_rng(3)
    x = rng.standard_normal((90, 4)).astype(np.float32)
    y = (x[:, 0] * classes + x[:, 1]).astype(np.int64) % classes
    for labels in (y, np.array(["no", "yes", "maybe"])[y]):
        model = estimators()[name]
        if labels.dtype.kind == "U" and not hasattr(model, "classes_") and not hasattr(model, "predict_proba"):
            continue
        model.fit(x, labels)
        proto = skl2onnx.to_onnx(model, x[:1], target_opset={"": 17, "ai.onnx.ml": 3})
        same(*both(proto.SerializeToString(), {"X": x[:31]}))


# Distances and kernels in double, with casts, comparisons and integer exponents between.
DOUBLES = {
    "neighbours_classifier": lambda: neighbours().KNeighborsClassifier(3),
    "neighbours_regressor": lambda: neighbours().KNeighborsRegressor(4),
    "neighbours_weighted": lambda: neighbours().KNeighborsRegressor(4, weights="distance"),
    "process": lambda: process().GaussianProcessRegressor(alpha=0.1),
    "process_product": lambda: process().GaussianProcessRegressor(
        process().kernels.ConstantKernel(2.0) * process().kernels.RBF(1.5), alpha=0.1),
    "process_quadratic": lambda: process().GaussianProcessRegressor(
        process().kernels.RationalQuadratic(alpha=2.0), alpha=0.1),
}


def neighbours():
    from sklearn import neighbors
    return neighbors


def process():
    from sklearn import gaussian_process
    return gaussian_process


@pytest.mark.parametrize("name", DOUBLES)
def test_scikit_learn_in_double(name):
    skl2onnx = pytest.importorskip("skl2onnx")
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 3))
    y = x[:, 0] - x[:, 1] ** 2
    classifies = "classifier" in name
    model = DOUBLES[name]().fit(x, (y > 0).astype(np.int64) if classifies else y)
    options = {"options": {"zipmap": False}} if classifies else {}
    proto = skl2onnx.to_onnx(model, x[:1], target_opset={"": 17, "ai.onnx.ml": 3}, **options)
    same(*both(proto.SerializeToString(), {"X": x[:23] + 0.1}))
