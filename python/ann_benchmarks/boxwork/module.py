"""Boxwork for ann-benchmarks: exact search, with or without codes, and search in lists.

Copy this folder to ``ann_benchmarks/algorithms/boxwork`` of ann-benchmarks.
"""

import os
import tempfile

import numpy

from ..base.module import BaseANN

METRICS = {"angular": "cosine", "euclidean": "l2"}


def _boxwork():
    """The package, imported where it is used: with ``--local`` this module is imported before the process forks, and threads of
    the package would stay in the parent."""
    import boxwork

    return boxwork


class Boxwork(BaseANN):
    """What the classes share: the vectors, and how one or many queries are answered."""

    def __init__(self, metric):
        if metric not in METRICS:
            raise NotImplementedError(f"Boxwork has no distance for {metric} here: {', '.join(METRICS)}")
        self._metric = METRICS[metric]
        self._folder = tempfile.TemporaryDirectory()
        self._options = {}
        self._found = None

    def _save(self, X):
        """Keeps the vectors in a file, beside which codes and lists lie."""
        rows = numpy.ascontiguousarray(X, dtype=numpy.float32)
        vectors = _boxwork().Vectors(rows, metric=self._metric)
        self._store = vectors.save(self._at("rows.vectors.arrow"), replace=True)

    def _at(self, name):
        return os.path.join(self._folder.name, name)

    def query(self, q, n):
        return self._nearest(q, n)[0]

    def batch_query(self, X, n):
        self._found = self._nearest(X, n)

    def get_batch_results(self):
        return self._found

    def _nearest(self, queries, n):
        found = self._store.nearest(queries, n, distance=self._metric, **self._options)
        no_id = _boxwork().NO_ID
        # Where lists hold fewer than n vectors, a row has as many as there are.
        return [row[row != no_id].astype(numpy.int64) for row in found.ids]

    def done(self):
        self._folder.cleanup()

    def __str__(self):
        return self.name


class BoxworkExact(Boxwork):
    """All answers are exact. `levels` are the codes that exclude rows with certainty: none, planes, sq8, pca, sq4, product16,
    product32 or product64."""

    def __init__(self, metric, levels):
        super().__init__(metric)
        self._levels = levels
        self.name = f"Boxwork(codes={levels})"

    def fit(self, X):
        if self._levels == "none":
            self._store = _boxwork().Vectors(numpy.ascontiguousarray(X, dtype=numpy.float32), metric=self._metric)
            return
        self._save(X)
        codes = self._store.codes(self._at("rows.codes.arrow"), levels=self._levels, distance=self._metric)
        self._options = {"codes": codes}


class BoxworkLists(Boxwork):
    """Looks into the lists nearest to a query, which hold vectors (rows) or codes of 4 bits a part (fast)."""

    def __init__(self, metric, lists, codes):
        super().__init__(metric)
        self._lists, self._codes = lists, codes
        self.name = f"Boxwork(lists={lists}, {codes})"

    def fit(self, X):
        self._save(X)
        lists = self._store.lists(
            self._at("rows.lists.arrow"), lists=self._lists, codes=self._codes, distance=self._metric
        )
        self._options = {"lists": lists}

    def set_query_arguments(self, probes, refine=10):
        self._options |= {"probes": probes, "refine": refine}
        self.name = f"Boxwork(lists={self._lists}, {self._codes}, probes={probes}, refine={refine})"
