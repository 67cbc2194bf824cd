"""scikit-learn's own checks of the estimators, and their answers beside scikit-learn's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

import sklearn.neighbors as peers
from boxwork import Error
from boxwork import sklearn as ours
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor as PeerRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        ours.NearestNeighbors(),
        ours.NearestNeighbors(metric="cosine"),
        ours.KNeighborsTransformer(n_neighbors=3),
        ours.KNeighborsTransformer(n_neighbors=3, mode="connectivity"),
        ours.GaussianProcessRegressor(),
        ours.GaussianProcessRegressor(kernel="1 * rbf() + white(0.1)", normalize_y=True),
    ]
)
def test_the_checks_of_scikit_learn_pass(estimator: Any, check: Any) -> None:
    check(estimator)


def rows(count: int = 400, columns: int = 6, seed: int = 3) -> Any:
    return np.random.default_rng(seed).normal(size=(count, columns)).astype(np.float32)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_answers_are_those_of_scikit_learn(metric: str) -> None:
    base, queries = rows(), rows(50, seed=4)
    mine = ours.NearestNeighbors(n_neighbors=7, radius=1.2, metric=metric).fit(base)
    peer = peers.NearestNeighbors(n_neighbors=7, radius=1.2, metric=metric, algorithm="brute")
    # In float64, as float32 sums of scikit-learn round.
    peer.fit(base.astype(np.float64))
    for given in (queries, None):
        of_peer = None if given is None else given.astype(np.float64)
        (distances, places), (expected, of_places) = mine.kneighbors(given), peer.kneighbors(of_peer)
        assert (places == of_places).all() and np.allclose(distances, expected, rtol=1e-9, atol=1e-9)
        found, wanted = mine.radius_neighbors(given), peer.radius_neighbors(of_peer, sort_results=True)
        for row in range(len(wanted[0])):
            assert found[1][row].tolist() == wanted[1][row].tolist()
            assert np.allclose(found[0][row], wanted[0][row], rtol=1e-9, atol=1e-9)
        for mode in ("connectivity", "distance"):
            graphs = mine.kneighbors_graph(given, mode=mode), peer.kneighbors_graph(of_peer, mode=mode)
            assert abs(graphs[0] - graphs[1]).max() < 1e-9
            graphs = mine.radius_neighbors_graph(given, mode=mode), peer.radius_neighbors_graph(of_peer, mode=mode)
            assert abs(graphs[0] - graphs[1]).max() < 1e-9


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_the_transformer_feeds_estimators_of_graphs(mode: str) -> None:
    base, queries = rows(), rows(30, seed=5)
    mine = ours.KNeighborsTransformer(n_neighbors=6, mode=mode)
    peer = peers.KNeighborsTransformer(n_neighbors=6, mode=mode, algorithm="brute")
    assert abs(mine.fit_transform(base) - peer.fit_transform(base.astype(np.float64))).max() < 1e-6
    assert abs(mine.transform(queries) - peer.transform(queries.astype(np.float64))).max() < 1e-6
    assert list(mine.get_feature_names_out())[:1] == ["kneighborstransformer0"]
    if mode == "distance":
        clusters = [DBSCAN(metric="precomputed", min_samples=3, eps=1.0)] * 2
        labels = [make_pipeline(each, last).fit_predict(base) for each, last in zip((mine, peer), clusters, strict=True)]
        assert (labels[0] == labels[1]).all()


def test_an_estimator_is_pickled_and_says_what_is_wrong() -> None:
    fitted = ours.NearestNeighbors(n_neighbors=2).fit(rows(20))
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.kneighbors(return_distance=False) == fitted.kneighbors(return_distance=False)).all()
    with pytest.raises(NotFittedError):
        ours.NearestNeighbors().kneighbors(rows(2))
    with pytest.raises(ValueError, match="n_neighbors <= n_samples_fit"):
        fitted.kneighbors(n_neighbors=20)
    with pytest.raises(ValueError, match="metric is 'hamming'"):
        ours.NearestNeighbors(metric="hamming").fit(rows(5))
    # Rows that equal one another find each other, and never themselves.
    same = ours.NearestNeighbors(n_neighbors=2).fit(np.ones((5, 3)))
    places = same.kneighbors(return_distance=False)
    assert all(row not in found for row, found in enumerate(places.tolist()))


def samples(count: int, seed: int = 5) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    X = random.uniform(0, 4, size=(count, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * random.normal(size=count)


@pytest.mark.parametrize("normalize_y", [False, True])
def test_a_gaussian_process_is_that_of_scikit_learn(normalize_y: bool) -> None:
    (X, y), (others, _) = samples(300), samples(40, seed=6)
    peer_kernel = ConstantKernel(1.5) * RBF([1.0, 2.0]) + WhiteKernel(0.05)
    text = "1.5 * rbf(l=[1, 2]) + white(0.05)"
    for optimise in (False, True):
        optimizers = ("l_bfgs", "fmin_l_bfgs_b") if optimise else (None, None)
        mine = ours.GaussianProcessRegressor(text, optimizer=optimizers[0], normalize_y=normalize_y).fit(X, y)
        peer = PeerRegressor(peer_kernel, optimizer=optimizers[1], normalize_y=normalize_y).fit(X, y)
        likelihoods = mine.log_marginal_likelihood_value_, peer.log_marginal_likelihood_value_
        assert np.isclose(*likelihoods, rtol=1e-6 if optimise else 1e-10)
        (means, deviations), (expected, of_peer) = (each.predict(others, return_std=True) for each in (mine, peer))
        tolerance = 1e-3 if optimise else 1e-8
        assert np.allclose(means, expected, rtol=tolerance) and np.allclose(deviations, of_peer, rtol=tolerance)
        assert (mine.predict(others) == means).all()
        again = pickle.loads(pickle.dumps(mine))
        assert (again.predict(others) == means).all()


def test_a_bad_kernel_is_told_with_its_place() -> None:
    X, y = samples(10)
    with pytest.raises(Error, match="did you mean `rbf`"):
        ours.GaussianProcessRegressor("rfb()").fit(X, y)
    with pytest.raises(NotFittedError):
        ours.GaussianProcessRegressor().predict(X)
