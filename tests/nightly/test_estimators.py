"""Estimators and pipelines of scikit-learn, LightGBM and XGBoost as skl2onnx and onnxmltools write them: Nacre gives
what the library itself predicts. One row each. Left out is what the converters write wrongly, where onnxruntime gives
what Nacre gives: random forests of LightGBM, one-vs-one with labels that are strings, linear discriminants of two
classes."""
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
import package  # noqa: E402
from tolerances import close  # noqa: E402

if not package.BUILT:
    pytest.skip("the Python extension was not built: no Python headers when cmake ran", allow_module_level=True)
skl2onnx = pytest.importorskip("skl2onnx")

import nacre  # noqa: E402
from skl2onnx.common.data_types import (DoubleTensorType, FloatTensorType, Int64TensorType,  # noqa: E402
                                        StringTensorType)
from sklearn import (calibration, cluster, compose, cross_decomposition, decomposition,  # noqa: E402
                     discriminant_analysis, ensemble, feature_extraction, feature_selection, gaussian_process, impute,
                     linear_model, mixture, multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline,
                     preprocessing, random_projection, svm, tree)

R = np.random.default_rng(41)
X = R.standard_normal((80, 4)).astype(np.float32)
NUMBER = X[:, 0] - X[:, 1] ** 2 + 0.1 * X[:, 2]
CLASS = (NUMBER > -0.5).astype(np.int64) + (NUMBER > 0.7)
COUNTS = R.integers(0, 6, (80, 4)).astype(np.float32)
HOLES = np.where(R.random(X.shape) < 0.15, np.nan, X).astype(np.float32)
WORDS = np.array([" ".join(R.choice(["red", "blue", "green", "fish", "cat", "a", "the"], 6)) for _ in range(40)])
KINDS = np.array([[R.choice(["low", "high", "none"]), R.choice(["cat", "dog"])] for _ in range(60)])
make = pipeline.make_pipeline
FAST = {"n_estimators": 6, "random_state": 0}


def classifiers():
    lm, nb = linear_model, naive_bayes
    return {
        "logistic": lm.LogisticRegression(), "logistic_cv": lm.LogisticRegressionCV(Cs=2, cv=2),
        "sgd_log": lm.SGDClassifier(loss="log_loss", random_state=0), "ridge": lm.RidgeClassifier(),
        "perceptron": lm.Perceptron(random_state=0), "linear_svc": svm.LinearSVC(), "svc": svm.SVC(),
        "svc_poly": svm.SVC(kernel="poly"), "nu_svc": svm.NuSVC(nu=0.1),
        "tree": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "extra_tree": tree.ExtraTreeClassifier(max_depth=4, random_state=0),
        "forest": ensemble.RandomForestClassifier(**FAST), "extra_trees": ensemble.ExtraTreesClassifier(**FAST),
        "boosting": ensemble.GradientBoostingClassifier(**FAST),
        "ada": ensemble.AdaBoostClassifier(**FAST),
        "bagging": ensemble.BaggingClassifier(n_estimators=3, random_state=0),
        "voting": ensemble.VotingClassifier([("a", lm.LogisticRegression()), ("b", nb.GaussianNB())], voting="soft",
                                            flatten_transform=False),
        "stacking": ensemble.StackingClassifier([("a", lm.LogisticRegression()), ("b", nb.GaussianNB())], cv=2),
        "neighbours": neighbors.KNeighborsClassifier(3),
        "bayes": nb.GaussianNB(), "bernoulli": nb.BernoulliNB(),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
        "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "mlp": neural_network.MLPClassifier((8,), max_iter=30, random_state=0),
        "one_vs_rest": multiclass.OneVsRestClassifier(lm.LogisticRegression()),
        "one_vs_one": multiclass.OneVsOneClassifier(lm.LogisticRegression()),
        "calibrated": calibration.CalibratedClassifierCV(nb.GaussianNB(), cv=2),
        "scaled": make(preprocessing.StandardScaler(), lm.LogisticRegression()),
        "selected": make(feature_selection.SelectKBest(k=2), tree.DecisionTreeClassifier(max_depth=3, random_state=0)),
    }


def regressors():
    lm, gp = linear_model, gaussian_process
    return {
        "linear": lm.LinearRegression(), "ridge": lm.Ridge(), "lasso": lm.Lasso(0.01), "elastic": lm.ElasticNet(0.01),
        "lars": lm.Lars(), "huber": lm.HuberRegressor(), "bayesian": lm.BayesianRidge(),
        "ransac": lm.RANSACRegressor(random_state=0), "sgd": lm.SGDRegressor(random_state=0),
        "theil": lm.TheilSenRegressor(random_state=0, max_subpopulation=100),
        "linear_svr": svm.LinearSVR(random_state=0), "svr": svm.SVR(),
        "nu_svr": svm.NuSVR(), "tree": tree.DecisionTreeRegressor(max_depth=4, random_state=0),
        "forest": ensemble.RandomForestRegressor(**FAST), "extra_trees": ensemble.ExtraTreesRegressor(**FAST),
        "boosting": ensemble.GradientBoostingRegressor(**FAST),
        "ada": ensemble.AdaBoostRegressor(**FAST), "bagging": ensemble.BaggingRegressor(n_estimators=3, random_state=0),
        "voting": ensemble.VotingRegressor([("a", lm.Ridge()), ("b", lm.LinearRegression())]),
        "stacking": ensemble.StackingRegressor([("a", lm.Ridge()), ("b", lm.LinearRegression())], cv=2),
        "neighbours": neighbors.KNeighborsRegressor(3), "radius": neighbors.RadiusNeighborsRegressor(2.5),
        "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=30, random_state=0),
        "process": gp.GaussianProcessRegressor(alpha=0.1),
        "pls": cross_decomposition.PLSRegression(2),
        "polynomial": make(preprocessing.PolynomialFeatures(2), lm.Ridge()),
        "pca": make(decomposition.PCA(3), lm.Ridge()),
    }


def transformers():
    p, d, fs = preprocessing, decomposition, feature_selection
    return {
        "standard": p.StandardScaler(), "minmax": p.MinMaxScaler(), "maxabs": p.MaxAbsScaler(),
        "robust": p.RobustScaler(),
        "normalizer": p.Normalizer(), "binarizer": p.Binarizer(threshold=0.1), "power": p.PowerTransformer(),
        "quantile": p.QuantileTransformer(n_quantiles=20),
        "bins": p.KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        "polynomial": p.PolynomialFeatures(2), "pca": d.PCA(2), "incremental_pca": d.IncrementalPCA(2),
        "truncated_svd": d.TruncatedSVD(2, random_state=0), "kernel_pca": d.KernelPCA(2, kernel="rbf"),
        "random_projection": random_projection.GaussianRandomProjection(2, random_state=0),
        "variance": fs.VarianceThreshold(0.5), "union": pipeline.make_union(p.StandardScaler(), d.PCA(2)),
        "columns": compose.ColumnTransformer([("a", p.StandardScaler(), [0, 1]), ("b", p.MinMaxScaler(), [2, 3])]),
        "kmeans": cluster.KMeans(3, n_init=1, random_state=0),
        "mini_kmeans": cluster.MiniBatchKMeans(3, n_init=1, random_state=0),
    }


CLASSIFIERS, REGRESSORS, TRANSFORMERS = sorted(classifiers()), sorted(regressors()), sorted(transformers())


def session_of(proto):
    try:
        return nacre.InferenceSession(proto.SerializeToString())
    except nacre.NotImplemented as e:
        if "op 'Tokenizer'" not in str(e):
            raise
        pytest.skip("text vectorizers need Tokenizer of com.microsoft")


def exported(model, x, kind=FloatTensorType, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session_of(skl2onnx.convert_sklearn(
            model, initial_types=[("X", kind([None, x.shape[1]]))],
            **{"target_opset": {"": 18, "ai.onnx.ml": 3}, **more}))


def test_there_are_enough():
    assert len(CLASSIFIERS) + len(REGRESSORS) + len(TRANSFORMERS) + len(OTHERS) + len(BOOSTERS) >= 85


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_classifiers(name):
    in_double = name in ("neighbours", "qda")
    x = X.astype(np.float64) if in_double else X
    for labels in (CLASS, (CLASS > 0).astype(np.int64), np.array(["no", "yes", "maybe"])[CLASS]):
        if (name, len(np.unique(labels))) == ("lda", 2) or (name, labels.dtype.kind) == ("one_vs_one", "U"):
            continue  # skl2onnx 1.20 writes other scores, and numbers where it declares strings
        model = classifiers()[name].fit(x, labels)
        got = exported(model, x, DoubleTensorType if in_double else FloatTensorType,
                       **({} if name == "linear_svc" else {"options": {id(model): {"zipmap": False}}})).run(
                           None, {"X": x})
        if not hasattr(model, "predict_proba"):
            scores = model.decision_function(x)
            sure = np.abs(scores) > 1e-4 if scores.ndim == 1 else np.ptp(np.sort(scores)[:, -2:], 1) > 1e-4
        else:
            chances = model.predict_proba(x)
            close(got[1], chances, "model_f32", name)
            sure = np.ptp(np.sort(chances)[:, -2:], 1) > 1e-4
        assert sure.mean() > 0.8 and (got[0].reshape(-1) == model.predict(x))[sure].all()


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.filterwarnings("ignore")
def test_regressors(name):
    in_double = name in ("neighbours", "radius", "process", "svr", "nu_svr")
    x = X.astype(np.float64) if in_double else X
    several = name in ("linear", "ridge", "forest", "tree", "mlp", "neighbours")
    for y in (NUMBER, np.stack([NUMBER, X[:, 3]], 1)) if several else (NUMBER,):
        model = regressors()[name].fit(x, y)
        got, = exported(model, x, DoubleTensorType if in_double else FloatTensorType).run(None, {"X": x})
        close(got.reshape(y.shape), model.predict(x).reshape(y.shape), "model_f32", name)


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.filterwarnings("ignore")
def test_transformers(name):
    in_double = name in ("kernel_pca", "quantile", "kmeans", "mini_kmeans")
    x = X.astype(np.float64) if in_double else X
    model = transformers()[name].fit(x)
    got = exported(model, x, DoubleTensorType if in_double else FloatTensorType).run(None, {"X": x})
    want = model.transform(x)
    close(got[-1], want.toarray() if hasattr(want, "toarray") else want, "model_f32", name)
    if hasattr(model, "predict"):
        assert (got[0].reshape(-1) == model.predict(x)).all()


# ---- with inputs of other kinds ----

def counted(kind):
    model = kind.fit(WORDS)
    session = session_of(skl2onnx.convert_sklearn(model, initial_types=[("X", StringTensorType([None, 1]))],
                                                  target_opset={"": 17, "ai.onnx.ml": 3}))
    return session.run(None, {"X": WORDS.reshape(-1, 1).astype(object)})[0], model.transform(WORDS).toarray()


def of_strings(model, x):
    session = session_of(skl2onnx.convert_sklearn(model, initial_types=[("X", StringTensorType([None, x.shape[1]]))],
                                                  target_opset={"": 17, "ai.onnx.ml": 3}))
    want = model.transform(x)
    return session.run(None, {"X": x.astype(object)})[0], want.toarray() if hasattr(want, "toarray") else want


def unseen():
    """A category that fitting did not meet is a row of zeros."""
    encoder = preprocessing.OneHotEncoder(handle_unknown="ignore").fit(KINDS)
    x = KINDS.copy()
    x[3, 0] = "never seen"
    got, want = of_strings(encoder, x)
    assert want[3, :3].sum() == 0
    return got, want


def filled(kind):
    model = kind.fit(HOLES)
    return exported(model, HOLES).run(None, {"X": HOLES})[0], model.transform(HOLES)


def of_counts(kind):
    model = kind.fit(COUNTS, CLASS)
    got = exported(model, COUNTS, options={id(model): {"zipmap": False}}).run(None, {"X": COUNTS})
    assert (got[0] == model.predict(COUNTS)).all()
    return got[1], model.predict_proba(COUNTS)


def many_outputs():
    model = multioutput.MultiOutputRegressor(linear_model.Ridge()).fit(X, np.stack([NUMBER, X[:, 1]], 1))
    return exported(model, X).run(None, {"X": X})[0], model.predict(X)


def text_pipeline():
    labels = np.array([int("cat" in w) for w in WORDS])
    model = make(feature_extraction.text.TfidfVectorizer(), linear_model.LogisticRegression()).fit(WORDS, labels)
    session = session_of(skl2onnx.convert_sklearn(
        model, initial_types=[("X", StringTensorType([None, 1]))], target_opset={"": 17, "ai.onnx.ml": 3},
        options={id(model): {"zipmap": False}}))
    got = session.run(None, {"X": WORDS.reshape(-1, 1).astype(object)})
    assert (got[0] == model.predict(WORDS)).all()
    return got[1], model.predict_proba(WORDS)


def outliers(kind):
    model = kind.fit(X)
    got = exported(model, X).run(None, {"X": X})
    far = np.abs(model.decision_function(X)) > 1e-4
    assert (got[0].reshape(-1) == model.predict(X))[far].all()
    return got[1].reshape(-1), model.decision_function(X)


def mixture_of(kind):
    model = kind.fit(X)
    got = exported(model, X, DoubleTensorType, target_opset=17).run(None, {"X": X.astype(np.float64)})
    return got[1], model.predict_proba(X.astype(np.float64))


def zip_mapped():
    model = linear_model.LogisticRegression().fit(X, np.array(["a", "b", "c"])[CLASS])
    rows = exported(model, X).run(None, {"X": X})[1]
    return np.array([[row[k] for k in model.classes_] for row in rows]), model.predict_proba(X)


def of_dicts():
    rows = [{"a": float(i % 3), "b": 1.0, **({"c": 2.5} if i % 2 else {})} for i in range(9)]
    model = feature_extraction.DictVectorizer(sparse=False).fit(rows)
    from skl2onnx.common.data_types import DictionaryType
    session = session_of(skl2onnx.convert_sklearn(model, initial_types=[
        ("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))], target_opset={"": 17, "ai.onnx.ml": 1}))
    return np.concatenate([session.run(None, {"X": row})[0] for row in rows]), model.transform(rows)


def of_integers():
    model = preprocessing.OrdinalEncoder().fit(COUNTS.astype(np.int64))
    got, = exported(model, COUNTS, Int64TensorType).run(None, {"X": COUNTS.astype(np.int64)})
    return got, model.transform(COUNTS)


TEXT = feature_extraction.text
#: scikit-learn's own pattern leaves out words of one letter, what the converter writes for it does not: pairs differ.
PAIRS = {"ngram_range": (1, 2), "token_pattern": "[a-zA-Z0-9_]+"}
OTHERS = {
    "count": lambda: counted(TEXT.CountVectorizer()), "count_pairs": lambda: counted(TEXT.CountVectorizer(**PAIRS)),
    "tfidf": lambda: counted(TEXT.TfidfVectorizer()),
    "tfidf_pairs": lambda: counted(TEXT.TfidfVectorizer(**PAIRS)),
    "one_hot": lambda: of_strings(preprocessing.OneHotEncoder().fit(KINDS), KINDS), "unseen": unseen,
    "ordinal": lambda: of_strings(preprocessing.OrdinalEncoder().fit(KINDS), KINDS), "ordinal_integers": of_integers,
    "mean": lambda: filled(impute.SimpleImputer()), "median": lambda: filled(impute.SimpleImputer(strategy="median")),
    "nearest": lambda: filled(impute.KNNImputer(n_neighbors=3)),
    "multinomial": lambda: of_counts(naive_bayes.MultinomialNB()),
    "complement": lambda: of_counts(naive_bayes.ComplementNB()),
    "many_outputs": many_outputs, "text": text_pipeline, "zip_map": zip_mapped, "dicts": of_dicts,
    "isolation": lambda: outliers(ensemble.IsolationForest(n_estimators=5, random_state=0)),
    "one_class": lambda: outliers(svm.OneClassSVM()),
    "mixture": lambda: mixture_of(mixture.GaussianMixture(2, random_state=0)),
    "bayesian_mixture": lambda: mixture_of(mixture.BayesianGaussianMixture(n_components=2, random_state=0)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore")
def test_other_inputs(name):
    got, want = OTHERS[name]()
    close(got, want, "model_f32", name)


# ---- LightGBM and XGBoost ----

def light(kind, y, **more):
    import lightgbm
    model = getattr(lightgbm, kind)(n_estimators=8, min_child_samples=3, verbose=-1, n_jobs=1, **more).fit(HOLES, y)
    return model, onnxmltools_of("lightgbm", model)


def extreme(kind, y, **more):
    import xgboost
    model = getattr(xgboost, kind)(n_estimators=8, max_depth=3, n_jobs=1, **more).fit(HOLES, y)
    return model, onnxmltools_of("xgboost", model)


def onnxmltools_of(library, model):
    from onnxmltools import convert
    from onnxmltools.convert.common.data_types import FloatTensorType as Floats
    options = {"zipmap": False} if library == "lightgbm" else {}
    return getattr(convert, f"convert_{library}")(model, initial_types=[("X", Floats([None, 4]))], target_opset=15,
                                                  **options)


BOOSTERS = {
    "light_regressor": lambda: light("LGBMRegressor", NUMBER),
    "light_binary": lambda: light("LGBMClassifier", (CLASS > 0).astype(int)),
    "light_classes": lambda: light("LGBMClassifier", CLASS),
    "light_poisson": lambda: light("LGBMRegressor", np.exp(NUMBER), objective="poisson"),
    "extreme_regressor": lambda: extreme("XGBRegressor", NUMBER),
    "extreme_binary": lambda: extreme("XGBClassifier", (CLASS > 0).astype(int)),
    "extreme_classes": lambda: extreme("XGBClassifier", CLASS),
    "extreme_forest": lambda: extreme("XGBRFRegressor", NUMBER),
}


@pytest.mark.parametrize("name", BOOSTERS)
@pytest.mark.filterwarnings("ignore")
def test_boosters(name):
    """Missing values among the features."""
    pytest.importorskip("onnxmltools")
    pytest.importorskip("lightgbm" if name.startswith("light") else "xgboost")
    model, proto = BOOSTERS[name]()
    got = session_of(proto).run(None, {"X": HOLES})
    if hasattr(model, "predict_proba"):
        close(got[1], model.predict_proba(HOLES), "model_f32", name)
        assert (got[0].reshape(-1) == model.predict(HOLES)).all()
    else:
        close(got[0].reshape(-1), model.predict(HOLES), "model_f32", name)
