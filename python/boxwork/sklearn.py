"""Estimators for scikit-learn: exact search and Gaussian processes by Boxwork behind scikit-learn's own interfaces.

    from boxwork.sklearn import GaussianProcessRegressor, KNeighborsTransformer, NearestNeighbors

scikit-learn is needed for this module alone: ``pip install scikit-learn``. Neighbours round numbers to float32; distances are
exact, in float64, for the rounded numbers, and of equal distances the lower row comes first. Gaussian processes compute in float64.
"""

from __future__ import annotations

import json
import os
import tempfile
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix  # type: ignore[import-untyped, import-not-found, unused-ignore]
from sklearn.base import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    check_is_fitted,
    validate_data,
)

from ._boxwork import Rows
from ._errors import InputError
from ._pipeline import Pipeline
from ._store import Nearest, Vectors

METRICS = {"euclidean": "l2", "l2": "l2", "cosine": "cosine"}
"""scikit-learn's names of the distances, and ours."""

Table = npt.NDArray[Any]


class _Neighbours(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: the fitted rows, and the rows near others."""

    n_neighbors: int
    metric: str

    def _fit(self, X: Any) -> None:
        rows = validate_data(self, X, dtype=(np.float32, np.float64), order="C")
        if self.metric not in METRICS:
            raise InputError(f"the metric is {self.metric!r}: it is one of {', '.join(METRICS)}")
        self._fit_X = np.ascontiguousarray(rows, dtype=np.float32)
        self._store = Vectors(self._fit_X, metric=METRICS[self.metric])
        self.effective_metric_ = self.metric
        self.n_samples_fit_ = len(self._fit_X)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # The rows make it again.
        state.pop("_store", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_fit_X" in state:
            self._store = Vectors(self._fit_X, metric=METRICS[self.effective_metric_])

    def _rows(self, X: Any) -> Table:
        return np.asarray(validate_data(self, X, dtype=(np.float32, np.float64), order="C", reset=False))

    def _nearest(self, X: Any, count: Any) -> Nearest:
        """The nearest fitted rows of each row; of each fitted row, without itself, if there are none."""
        count = self.n_neighbors if count is None else count
        if isinstance(count, bool) or not isinstance(count, Integral) or int(count) < 1:
            raise ValueError(f"Expected n_neighbors > 0. Got {count}")
        most = self.n_samples_fit_ - (X is None)
        if int(count) > most:
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {count}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = {self.n_samples_fit_ if X is None else len(X)}"
            )
        if X is not None:
            return self._store.nearest(X, int(count))
        found = self._store.nearest(self._fit_X, int(count) + 1)
        # A row that equals many others may not be among its own nearest: then the last one goes.
        others = found.ids != np.arange(self.n_samples_fit_, dtype=np.uint64)[:, None]
        others[others.all(axis=1), -1] = False
        shape = (self.n_samples_fit_, int(count))
        return Nearest(found.ids[others].reshape(shape), found.distances[others].reshape(shape))

    def _graph(self, found: Nearest, mode: str) -> csr_matrix:
        if mode not in ("connectivity", "distance"):
            raise ValueError(f'Unsupported mode, must be one of "connectivity", or "distance" but got "{mode}" instead')
        rows, count = found.ids.shape
        data = found.distances.ravel() if mode == "distance" else np.ones(rows * count)
        starts = np.arange(0, rows * count + 1, count)
        columns = self.n_samples_fit_
        return csr_matrix((data, found.ids.ravel().astype(np.int64), starts), shape=(rows, columns))


class NearestNeighbors(_Neighbours):
    """The nearest of the fitted rows, as `sklearn.neighbors.NearestNeighbors` has it, by exact search.

    `metric` is euclidean or cosine.
    """

    def __init__(self, n_neighbors: int = 5, radius: float = 1.0, metric: str = "euclidean") -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.metric = metric

    def fit(self, X: Any, y: Any = None) -> NearestNeighbors:
        """Takes the rows among which later calls search."""
        self._fit(X)
        return self

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Table | tuple[Table, Table]:
        """The distances and the places of the nearest fitted rows, for each row of `X`.

        Without `X`, of each fitted row, which is not its own neighbour.
        """
        check_is_fitted(self, "_fit_X")
        found = self._nearest(None if X is None else self._rows(X), n_neighbors)
        places = found.ids.astype(np.int64)
        return (found.distances, places) if return_distance else places

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> csr_matrix:
        """The nearest fitted rows as a sparse graph, with 1 or the distance at each edge."""
        check_is_fitted(self, "_fit_X")
        return self._graph(self._nearest(None if X is None else self._rows(X), n_neighbors), mode)

    def radius_neighbors(
        self, X: Any = None, radius: float | None = None, return_distance: bool = True, sort_results: bool = True
    ) -> Table | tuple[Table, Table]:
        """The distances and the places of all fitted rows within the radius, an array for each row of `X`.

        They are always sorted by distance.
        """
        starts, places, distances = self._within(X, radius)
        cuts = starts[1:-1]
        of_rows = [np.empty(len(starts) - 1, dtype=object) for _ in range(2)]
        for made, values in zip(of_rows, (distances, places), strict=True):
            made[:] = np.split(values, cuts)
        return (of_rows[0], of_rows[1]) if return_distance else of_rows[1]

    def radius_neighbors_graph(
        self, X: Any = None, radius: float | None = None, mode: str = "connectivity", sort_results: bool = True
    ) -> csr_matrix:
        """All fitted rows within the radius as a sparse graph, with 1 or the distance at each edge."""
        starts, places, distances = self._within(X, radius)
        if mode not in ("connectivity", "distance"):
            raise ValueError(f'Unsupported mode, must be one of "connectivity", or "distance" but got "{mode}" instead')
        data = distances if mode == "distance" else np.ones(len(places))
        return csr_matrix((data, places, starts), shape=(len(starts) - 1, self.n_samples_fit_))

    def _within(self, X: Any, radius: float | None) -> tuple[Table, Table, Table]:
        check_is_fitted(self, "_fit_X")
        radius = self.radius if radius is None else radius
        if isinstance(radius, bool) or not isinstance(radius, Real) or not float(radius) >= 0:
            raise ValueError(f"the radius is {radius!r}: it is a number from 0")
        found = self._store.within(self._fit_X if X is None else self._rows(X), float(radius))
        starts, places, distances = found.starts, found.ids.astype(np.int64), found.distances
        if X is None:
            of_row = np.repeat(np.arange(self.n_samples_fit_), np.diff(starts))
            others = places != of_row
            places, distances = places[others], distances[others]
            starts = np.searchsorted(of_row[others], np.arange(self.n_samples_fit_ + 1))
        return starts, places, distances


class KNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Neighbours):  # type: ignore[misc]
    """Rows as a sparse graph of their nearest fitted rows, as `sklearn.neighbors.KNeighborsTransformer` has it.

    Each row of the graph has `n_neighbors` edges, and for the mode distance one more: a fitted row is its own nearest.
    `metric` is euclidean or cosine.
    """

    def __init__(self, mode: str = "distance", n_neighbors: int = 5, metric: str = "euclidean") -> None:
        self.mode = mode
        self.n_neighbors = n_neighbors
        self.metric = metric

    def fit(self, X: Any, y: Any = None) -> KNeighborsTransformer:
        """Takes the rows among which later calls search."""
        self._fit(X)
        self._n_features_out = self.n_samples_fit_
        return self

    def transform(self, X: Any) -> csr_matrix:
        """The graph of the nearest fitted rows of each row of `X`."""
        check_is_fitted(self, "_fit_X")
        count = self.n_neighbors + (self.mode == "distance")
        return self._graph(self._nearest(self._rows(X), count), self.mode)

    def fit_transform(self, X: Any, y: Any = None) -> csr_matrix:
        """Fits to rows, and returns the graph of these rows."""
        return self.fit(X).transform(X)


_FIT = """boxwork: 1
about: A Gaussian process fitted to rows that the caller gives.
parameters:
  inputs:    {type: list of text, about: the columns of the inputs}
  kernel:    {type: text, about: the covariance}
  noise:     {type: number, about: the variance of the noise}
  normalize: {type: boolean, about: whether targets are scaled}
  optimise:  {type: boolean, about: whether parameters are found}
  restarts:  {type: integer, about: random starts}
  seed:      {type: integer, about: the seed of random starts}
  out:       {type: path, about: the model}
boxes:
  samples: {kind: read_samples, inputs: "${inputs}", target: y}
  fit:     {kind: gp_fit_samples, kernel: "${kernel}", noise: "${noise}", normalize: "${normalize}", optimise: "${optimise}", restarts: "${restarts}", seed: "${seed}", inputs: "${inputs}", target: y}
  file:    {kind: write_gp_model, out: "${out}"}
  fitted:  {kind: write_arrow, columns: regression}
edges:
  - samples -> fit -> file
  - fit -> fitted
"""

_PREDICT = """boxwork: 1
about: Means and deviations of rows that the caller gives.
parameters:
  model:     {type: path, about: the model}
  deviation: {type: boolean, about: whether deviations are computed}
resources:
  model: {kind: gp_model, path: "${model}"}
boxes:
  points:  {kind: read_samples, model: model}
  predict: {kind: gp_predict, model: model, deviation: "${deviation}", of: observation}
  results: {kind: write_predictions}
edges:
  - {from: points, to: predict, envelopes: 16}
  - {from: predict, to: results, envelopes: 16}
"""


class GaussianProcessRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by an exact Gaussian process, as `sklearn.gaussian_process.GaussianProcessRegressor` has it.

    `kernel` is a text such as ``"1 * rbf(l=[1, 1]) + white(0.1)"``; the guide lists all forms. `alpha` is added to the
    diagonal; `optimizer` is ``"l_bfgs"`` or None, which leaves the parameters as they are. Deviations are those of
    observations: with the terms `white` of the kernel, and without `alpha`, as scikit-learn's are.
    """

    def __init__(
        self,
        kernel: str = "1 fixed * rbf(l=1 fixed)",
        alpha: float = 1e-10,
        optimizer: str | None = "l_bfgs",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> GaussianProcessRegressor:
        """Fits rows and their targets, after the parameters of the greatest likelihood are found."""
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", y_numeric=True)
        if self.optimizer not in ("l_bfgs", None):
            raise InputError(f"the optimizer is {self.optimizer!r}: it is 'l_bfgs' or None")
        targets = np.ascontiguousarray(y, dtype=np.float64)
        # Equal targets have no deviation to divide by; scikit-learn leaves them unscaled.
        self._shift = float(targets[0]) if self.normalize_y and np.ptp(targets) == 0 else 0.0
        values: dict[str, Any] = {
            "inputs": _columns(X.shape[1]),
            "kernel": self.kernel,
            "noise": float(self.alpha),
            "normalize": bool(self.normalize_y and np.ptp(targets) > 0),
            "optimise": self.optimizer is not None,
            "restarts": int(self.n_restarts_optimizer),
            "seed": 1 if self.random_state is None else int(self.random_state),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gp.arrow")
            rows = _table(X, targets - self._shift)
            fitted = Pipeline(_FIT).run({"samples": rows}, out=path, **values)["fitted"]
            with open(path, "rb") as file:
                self._model = file.read()
        head = json.loads(fitted.metadata["gp_model"])
        self.kernel_ = head["covariance"]
        self.log_marginal_likelihood_value_ = head["log_likelihood"]
        self._scale = head["scale"]
        self.X_train_, self.y_train_ = X, targets
        return self

    def predict(self, X: Any, return_std: bool = False) -> Table | tuple[Table, Table]:
        """The means of rows, and with `return_std` their deviations."""
        check_is_fitted(self, "_model")
        X = np.asarray(validate_data(self, X, dtype=np.float64, order="C", reset=False))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gp.arrow")
            with open(path, "wb") as file:
                file.write(self._model)
            found = Pipeline(_PREDICT).run({"points": _table(X, None)}, model=path, deviation=return_std)["results"]
        means = np.asarray(found.column("mean")) + self._shift
        if not return_std:
            return means
        variances = np.asarray(found.column("deviation")) ** 2 - self.alpha * self._scale**2
        return means, np.sqrt(np.maximum(variances, 0.0))


def _columns(count: int) -> list[str]:
    return [f"x{place}" for place in range(count)]


def _table(X: Table, y: Table | None) -> Rows:
    """Rows as Arrow columns, one for each input."""
    columns = {name: np.ascontiguousarray(X[:, place]) for place, name in enumerate(_columns(X.shape[1]))}
    if y is not None:
        columns["y"] = np.ascontiguousarray(y)
    return Rows.from_columns(columns)


__all__ = ["METRICS", "GaussianProcessRegressor", "KNeighborsTransformer", "NearestNeighbors"]
