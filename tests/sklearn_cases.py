"""scikit-learn's estimators and metrics that take arrays of any library, on tensors; run as a program, since SciPy
reads the switch SCIPY_ARRAY_API when it is imported.
"""

import json
import sys
import warnings

import numpy as np
import sklearn
from scipy_cases import leaves
from sklearn import datasets, metrics, mixture, naive_bayes, pipeline, preprocessing
from sklearn import decomposition as factors
from sklearn import discriminant_analysis as discriminant
from sklearn import linear_model as linear
from sklearn import model_selection as selection
from sklearn.kernel_approximation import Nystroem

import lucid

X, KIND = (part[::3] for part in datasets.load_iris(return_X_y=True))
TARGET = 2 * X[:, 0] + np.sin(X[:, 1])
RANDOM = np.random.default_rng(0)
GUESS = RANDOM.integers(0, 3, len(KIND))
TRUTH, SCORE = (KIND == 1).astype(np.int64), RANDOM.random(len(KIND))
SHARES = RANDOM.dirichlet(np.ones(3), len(KIND))
CASES: dict = {}


def estimator(make, attributes, target=KIND, signless=False):
    """Fit, and compare what methods of the data and attributes of the fit give; vectors may come with either sign."""

    def call(a):
        fitted = make().fit(a(X), a(target))
        found = [getattr(fitted, name) for name in attributes.split()]
        found = [f(a(X)) if callable(f) else f for f in found]
        return [abs(f) for f in found] if signless else found

    CASES[repr(make()).replace("\n", " ")] = call


estimator(lambda: discriminant.LinearDiscriminantAnalysis(), "predict predict_proba decision_function")
for solver in ("full", "covariance_eigh"):
    estimator(lambda s=solver: factors.PCA(2, svd_solver=s), "transform components_ explained_variance_", signless=True)
estimator(
    lambda: factors.PCA(2, svd_solver="randomized", random_state=0, power_iteration_normalizer="QR"),
    "transform explained_variance_",
    signless=True,
)
estimator(lambda: factors.PCA(0.9, svd_solver="full", whiten=True), "transform", signless=True)
estimator(lambda: linear.Ridge(solver="svd"), "predict coef_ intercept_", TARGET)
estimator(lambda: linear.RidgeCV(), "predict alpha_", TARGET)
estimator(lambda: linear.RidgeClassifier(solver="svd"), "predict decision_function")
estimator(lambda: linear.LogisticRegression(tol=1e-8, max_iter=1000), "predict predict_proba")
estimator(lambda: naive_bayes.GaussianNB(), "predict predict_proba theta_")
estimator(lambda: mixture.GaussianMixture(2, random_state=0, init_params="random"), "predict means_ covariances_")
estimator(lambda: Nystroem(n_components=5, random_state=0), "transform")
estimator(lambda: preprocessing.StandardScaler(), "transform inverse_transform mean_ var_")
estimator(lambda: preprocessing.MinMaxScaler(), "transform inverse_transform")
estimator(lambda: preprocessing.MaxAbsScaler(), "transform")
estimator(lambda: preprocessing.Normalizer("l1"), "transform")
estimator(lambda: preprocessing.Binarizer(threshold=2.0), "transform")
estimator(lambda: preprocessing.PolynomialFeatures(), "transform")
estimator(
    lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), discriminant.LinearDiscriminantAnalysis()),
    "predict predict_proba",
)
CASES["LabelEncoder"] = lambda a: preprocessing.LabelEncoder().fit_transform(a(KIND))
CASES["LabelBinarizer"] = lambda a: preprocessing.LabelBinarizer().fit_transform(a(KIND))
CASES["KernelCenterer"] = lambda a: preprocessing.KernelCenterer().fit_transform(a(X @ X.T))
CASES["train_test_split"] = lambda a: selection.train_test_split(a(X), a(KIND), random_state=0, stratify=a(KIND))
CASES["cross_val_predict"] = lambda a: selection.cross_val_predict(
    discriminant.LinearDiscriminantAnalysis(), a(X), a(KIND), cv=3
)
CASES["GridSearchCV"] = lambda a: (
    selection.GridSearchCV(linear.Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=3).fit(a(X), a(TARGET)).predict(a(X))
)


def metric(names, *data, module=metrics, **settings):
    for name in names.split():
        CASES[name] = lambda a, name=name: getattr(module, name)(*[a(d) for d in data], **settings)


metric(
    "mean_squared_error mean_absolute_error r2_score mean_absolute_percentage_error explained_variance_score max_error "
    "mean_poisson_deviance mean_gamma_deviance mean_squared_log_error root_mean_squared_error median_absolute_error "
    "mean_pinball_loss d2_tweedie_score",
    X[:, 0],
    X[:, 0] + 0.1 * SCORE,
)
metric("accuracy_score zero_one_loss balanced_accuracy_score cohen_kappa_score hamming_loss", KIND, GUESS)
metric("confusion_matrix multilabel_confusion_matrix precision_recall_fscore_support", KIND, GUESS)
metric("f1_score precision_score recall_score jaccard_score", KIND, GUESS, average="macro")
metric("average_precision_score brier_score_loss precision_recall_curve det_curve", TRUTH, SCORE)
metric("log_loss", KIND, SHARES)
metric("calinski_harabasz_score davies_bouldin_score", X, KIND)
metric(
    "cosine_similarity cosine_distances euclidean_distances linear_kernel rbf_kernel polynomial_kernel sigmoid_kernel "
    "chi2_kernel paired_euclidean_distances",
    X,
    X[::-1],
    module=metrics.pairwise,
)


def report(name):
    try:
        wanted = leaves(CASES[name](np.array))
        with sklearn.config_context(array_api_dispatch=True):
            found = leaves(CASES[name](lambda values: lucid.tensor(np.array(values))))
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted, strict=True):
            assert isinstance(f, lucid.Tensor) or not isinstance(w, np.ndarray), f"{type(f).__name__}, not a tensor"
            np.testing.assert_allclose(np.asarray(f), np.asarray(w), rtol=1e-6, atol=1e-6)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump({name: report(name) for name in CASES}, sys.stdout)
