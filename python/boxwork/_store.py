"""Stores: open, search, measure, change. `Vectors` is a store in memory."""

from __future__ import annotations

import builtins
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from . import _boxwork
from ._errors import InputError, StoreError
from ._inputs import (
    NUMBERS,
    ArrowArray,
    ArrowStream,
    Id,
    Path,
    Query,
    as_type,
    given,
    ids_of,
    native_query,
    one_query,
    path_of,
    paths_of,
    rows_of,
    table_of,
)

if TYPE_CHECKING:
    from ._feedback import Session

STRATEGIES = {
    "auto": "auto",
    "best_first": "best_first",
    "estimated_range": "estimated_range",
    "fixed_blocks": "fixed_blocks",
    "adaptive_blocks": "adaptive_blocks",
    "two_phase": "two_phase",
    "scan": "search",
}
"""The orders of a search with an index, and the pipelines that have them."""


QUERIES_MAX = 64
"""The most queries of one request."""
TABLE_ROWS = 4096
"""The most rows of a table of queries of one request."""


class SkippedWarning(UserWarning):
    """Pictures that could not be read were left out."""


class Hits:
    """The objects found for one query, nearest first."""

    __slots__ = ("query", "ids", "distances", "names")

    query: str | int | None
    """The name, the path or the id that was asked for; None for an array."""
    ids: npt.NDArray[np.uint64]
    distances: npt.NDArray[np.float64]
    """Exact, in float64."""
    names: list[str]

    def __init__(
        self,
        query: str | int | None,
        ids: npt.NDArray[np.uint64],
        distances: npt.NDArray[np.float64],
        names: list[str],
    ) -> None:
        self.query, self.ids, self.distances, self.names = query, ids, distances, names

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[int, str, float]]:
        """Each object's id, name and distance."""
        return zip(self.ids.tolist(), self.names, self.distances.tolist(), strict=True)

    def __repr__(self) -> str:
        nearest = f", nearest {self.names[0]!r} at {self.distances[0]:.6g}" if self.names else ""
        return f"Hits({len(self)} for {self.query!r}{nearest})"

    def to_arrow(self) -> _boxwork.Rows:
        """The hits as rows with `rank`, `id`, `name` and `distance`."""
        rank = np.arange(1, len(self) + 1, dtype=np.uint32)
        columns = {"rank": rank, "id": self.ids, "name": self.names, "distance": self.distances}
        return _boxwork.Rows.from_columns(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


NO_ID = 2**64 - 1
"""The id that stands where lists hold fewer vectors than were asked for."""


@dataclass(frozen=True, eq=False, slots=True)
class Nearest:
    """The nearest vectors of many queries: a row for each query, nearest first."""

    ids: npt.NDArray[np.uint64]
    distances: npt.NDArray[np.float64]
    exact: bool = True
    """Whether these are the nearest of all; if not, of those that the queries looked at."""
    probes: int | None = None
    """How many lists each query looked into; None if it looked at all vectors."""
    refine: int | None = None
    """How many candidates each query ranked for each vector to find, if lists hold codes."""


@dataclass(frozen=True, eq=False, slots=True)
class Within:
    """The vectors within a range of many queries: those of query i are at ``starts[i]:starts[i + 1]``, nearest first."""

    starts: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint64]
    distances: npt.NDArray[np.float64]
    exact: bool = True
    """Whether these are all of them; if not, of those that the queries looked at."""
    probes: int | None = None
    """How many lists each query looked into; None if it looked at all vectors."""
    refine: int | None = None
    """How many candidates each query ranked for each vector to find, if lists hold codes."""


@dataclass(frozen=True, slots=True)
class ClassQuality:
    """How well objects of one class find each other."""

    name: str
    objects: int
    map: float | None
    """Mean average precision; None if the class has a single object."""
    precision_at_10: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well distances separate the classes of a store; every object is a query."""

    map: float | None
    """Mean average precision over all queries."""
    precision_at_10: float | None
    idim: float | None
    """The intrinsic dimensionality of the distances."""
    idim_error: float | None
    distance: str
    """The distance in words."""
    classes: list[ClassQuality]


class Store:
    """Objects of one kind on disk, such as the signatures of photographs.

    A store is a snapshot of its file. Changes made through it are seen at once; those of others, after
    :meth:`refresh`.
    """

    _native: _boxwork.Store
    _listed: tuple[npt.NDArray[np.uint64], list[str]] | None

    def __init__(self, native: _boxwork.Store) -> None:
        self._native, self._listed = native, None

    @classmethod
    def open(cls, path: Path) -> Store:
        """Opens a store that `extract` or the command made, or a file of objects that another program made.

        Raises StoreError if the file cannot be read.
        """
        # Absolute: the process may go to another folder while the store is open.
        return cls(_boxwork.Store.open(os.path.abspath(path_of(path))))

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"Store({len(self)} {self.kind}, {str(self.path)!r})"

    @property
    def path(self) -> str | None:
        """The file, as an absolute path; None for vectors in memory."""
        return self._native.path

    @property
    def kind(self) -> str:
        """What the objects are, such as ``signatures``."""
        return self._native.kind

    @property
    def fingerprint(self) -> str:
        """A text unique to the content."""
        return self._native.fingerprint

    @property
    def alpha(self) -> float | None:
        """The alpha of searches that name none; None if the store keeps none."""
        return self._native.alpha

    def _list(self) -> tuple[npt.NDArray[np.uint64], list[str]]:
        if self._listed is None:
            ids, names = self._native.listed()
            self._listed = np.asarray(ids), names
        return self._listed

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        """The ids of all objects, ascending."""
        return self._list()[0]

    @property
    def names(self) -> list[str]:
        """The names of all objects, by id."""
        return list(self._list()[1])

    @property
    def labels(self) -> list[str | None]:
        """The classes of all objects, by id: the last folder of each name; None if it has none."""
        return [_class_of(name) for name in self._list()[1]]

    def id(self, name: str) -> int:
        """The id of an object. Raises InputError if no object has this name."""
        found = self._native.find(name)
        if found is None:
            raise InputError(f"`{self.path}` has no object named `{name}`")
        return found

    def name(self, id: Id) -> str:
        """The name of an object. Raises InputError if there is no such id."""
        return self._native.names_of(ids_of([id]))[0]

    def refresh(self) -> None:
        """Opens the file again, to see what others have changed."""
        if self.path is None:
            raise StoreError("vectors in memory are no file")
        self._native, self._listed = _boxwork.Store.open(self.path), None

    def _distance(self, alpha: float | None, distance: str | None, options: dict[str, Any]) -> dict[str, Any]:
        return given({"alpha": alpha, "distance": distance, **options})

    @overload
    def search(
        self,
        query: Query,
        k: int | None = None,
        *,
        range: float | None = None,
        alpha: float | None = None,
        distance: str | None = None,
        pivots: Path | None = None,
        strategy: str | None = None,
        device: str = "auto",
        **options: Any,
    ) -> Hits: ...

    @overload
    def search(
        self,
        query: Sequence[Query],
        k: int | None = None,
        *,
        range: float | None = None,
        alpha: float | None = None,
        distance: str | None = None,
        pivots: Path | None = None,
        strategy: str | None = None,
        device: str = "auto",
        **options: Any,
    ) -> list[Hits]: ...

    def search(
        self,
        query: Query | Sequence[Query],
        k: int | None = None,
        *,
        range: float | None = None,
        alpha: float | None = None,
        distance: str | None = None,
        pivots: Path | None = None,
        strategy: str | None = None,
        device: str = "auto",
        **options: Any,
    ) -> Hits | list[Hits]:
        """The objects most similar to a query, or to each of several.

        A query is the name of an object, the path of an image, an id, or a picture as an array of uint8 of the shape
        (height, width, 3). `k` is 10, or all if a `range` is given. `pivots` is an index made by :meth:`index`, with a
        `strategy` of `boxwork.STRATEGIES`. `options` are further parameters of the pipeline, such as `ground`,
        `similarity`, `p`, `root` and `bound`. The answers are exact, and equal those of the command to the bit.
        """
        single = one_query(query, self._query_dimensions())
        queries: list[Any] = single if single is not None else list(query)  # type: ignore[arg-type]
        if not queries:
            return []
        of_vectors = self.kind == "vectors"
        native = [native_query(each, of_vectors) for each in queries]
        values = self._distance(alpha, distance, options)
        each: dict[str, Any] = {}
        pipeline = _pipeline(values, each, k, range, None if pivots is None else path_of(pivots), strategy)
        values["device"] = device
        if all(isinstance(query, str) for query in native):
            rows = self._native.ask(pipeline, "results", values, each | {"queries": native}, {})
            hits = _hits(queries, rows)
        else:
            hits = []
            for first in builtins.range(0, len(queries), QUERIES_MAX):
                asked = self._native.query_rows(native[first : first + QUERIES_MAX])
                rows = self._native.ask(pipeline, "results", values, each | {"queries": []}, {"query": asked})
                hits += _hits(queries[first : first + QUERIES_MAX], rows)
        return hits[0] if single is not None else hits

    def _query_dimensions(self) -> int:
        return 1 if self.kind == "vectors" else 3

    def nearest(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        distance: str | None = None,
        among: Iterable[Id | str] | None = None,
        **options: Any,
    ) -> Nearest:
        """The `k` vectors nearest to each row of a table of queries: exact, in f64, of equal distances the lower id first.

        For vectors by l2, ip or cosine. `among` are the objects to search among, by id or name; all by default. `options` are further parameters of the pipeline `vector_search`, such as `codes`, a
        file that :meth:`codes` made, with which a search computes fewer distances; or, with `lists`, a file that
        :meth:`lists` made, of `vector_probe`, such as `probes`, and then the answer is approximate.
        """
        few = None if among is None else sorted(set(self._ids(among)))
        (of_query, ids, distances), looked = self._near(queries, {"k": k}, distance, few, options)
        wanted = min(k, len(self) if few is None else len(few))
        rows = len(np.asarray(queries)) if np.ndim(queries) > 1 else 1
        if len(ids) == rows * wanted:
            return Nearest(ids.reshape(rows, wanted), distances.reshape(rows, wanted), **looked)
        # Lists may hold fewer than k vectors: the rest of a row has no id.
        all_ids = np.full((rows, wanted), NO_ID, dtype=np.uint64)
        all_distances = np.full((rows, wanted), np.inf)
        starts = np.searchsorted(of_query, np.arange(rows))
        place = np.arange(len(ids)) - starts[of_query]
        all_ids[of_query, place], all_distances[of_query, place] = ids, distances
        return Nearest(all_ids, all_distances, **looked)

    def within(
        self,
        queries: npt.ArrayLike,
        range: float,
        *,
        distance: str | None = None,
        among: Iterable[Id | str] | None = None,
        **options: Any,
    ) -> Within:
        """The vectors at most `range` away from each row of a table of queries, nearest first: exact, in f64.

        `among` are the objects to search among, by id or name; all by default.
        """
        few = None if among is None else sorted(set(self._ids(among)))
        rows = len(np.asarray(queries)) if np.ndim(queries) > 1 else 1
        each = {"k": len(self), "range": float(range)}
        (of_query, ids, distances), looked = self._near(queries, each, distance, few, options)
        return Within(np.searchsorted(of_query, np.arange(rows + 1)), ids, distances, **looked)

    def _near(
        self,
        queries: npt.ArrayLike,
        each: dict[str, Any],
        distance: str | None,
        among: list[int] | None,
        options: dict[str, Any],
    ) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.float64]], dict[str, Any]]:
        """The numbers of the queries, the ids and the distances that are found, by query; and what was looked at."""
        if self.kind != "vectors":
            raise InputError(f"the nearest rows are those of vectors, and this store holds {self.kind}: use `search`")
        table = rows_of(queries, or_row=True)
        values = self._distance(None, distance, {})
        pipeline = "vector_probe" if "lists" in options else "vector_search"
        fixed = {name: options.pop(name) for name in ("codes", "lists") if options.get(name) is not None}
        values |= given(fixed)
        each = each | {"queries": []} | given(options)
        if among == []:
            # An empty list of ids names all of them.
            return (np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0)), {}
        if among is not None:
            each["ids"] = among
        parts, looked = [], {}
        for first in builtins.range(0, len(table), TABLE_ROWS):
            asked = self._native.query_table(table[first : first + TABLE_ROWS])
            rows = self._native.ask(pipeline, "results", values, each, {"query": asked})
            looked = _looked(rows.metadata)
            of_query = np.asarray(rows.column("query")).astype(np.int64) + first
            parts.append((of_query, np.asarray(rows.column("id")), np.asarray(rows.column("distance"))))
        of_query, ids, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
        return (of_query, ids, distances), looked

    def save(self, out: Path, *, replace: bool = False) -> Store:
        """Writes the objects to a file, numbered anew without those that were removed, and opens it."""
        path = _writable(out, replace)
        _boxwork.copy(self._native, path)
        return Store.open(path)

    def codes(self, out: Path, *, levels: str = "planes", distance: str | None = None, replace: bool = False) -> str:
        """Writes codes of the vectors, with which :meth:`nearest` excludes most rows with certainty. Returns their path.

        `levels` are planes, sq8, pca, sq4, product16, product32 or product64.
        """
        path = _writable(out, replace)
        _boxwork.make_file(self._native, "index_codes", given({"out": path, "levels": levels, "distance": distance}))
        return path

    def lists(
        self,
        out: Path,
        *,
        lists: int | None = None,
        codes: str = "rows",
        parts: int | None = None,
        distance: str | None = None,
        replace: bool = False,
        **options: Any,
    ) -> str:
        """Writes the vectors in lists, among which :meth:`nearest` looks into the nearest ones. Returns their path.

        `codes` are rows, product or fast: vectors, or codes of `parts` parts of 8 or 4 bits.
        """
        path = _writable(out, replace)
        values = {"out": path, "lists": lists, "codes": codes, "parts": parts, "distance": distance, **options}
        _boxwork.make_file(self._native, "vector_lists", given(values))
        return path

    def distances(
        self,
        ids: Iterable[Id | str],
        others: Iterable[Id | str] | None = None,
        *,
        alpha: float | None = None,
        distance: str | None = None,
        **options: Any,
    ) -> npt.NDArray[np.float64]:
        """The exact distances, a row for each of `ids` and a column for each of `others` (by default `ids` again).

        Objects are named by id or by name.
        """
        rows = self._ids(ids)
        columns = rows if others is None else self._ids(others)
        return np.asarray(self._native.distances(rows, columns, self._distance(alpha, distance, options)))

    def _ids(self, objects: Iterable[Id | str]) -> list[int]:
        return ids_of(self.id(each) if isinstance(each, str) else each for each in objects)

    def evaluate(
        self,
        *,
        alpha: float | None = None,
        distance: str | None = None,
        most: int = 100_000,
        exact_pairs: int = 32_768,
        device: str = "cpu",
        **options: Any,
    ) -> Evaluation:
        """How well the distances separate the classes, which are the folders in the names.

        The time grows with the square of the objects: stores of more than `most` are refused.
        """
        values = self._distance(alpha, distance, options)
        values |= {"most": most, "exact_pairs": exact_pairs, "device": device}
        rows = self._native.ask("evaluate", "quality", values, {}, {})
        names, objects = _optional(rows.column("class")), np.asarray(rows.column("objects")).tolist()
        maps, precisions = _optional(rows.column("map")), _optional(rows.column("precision_at_10"))
        classes = [
            ClassQuality(name, count, of_class, precision)
            for name, count, of_class, precision in zip(names, objects, maps, precisions, strict=True)
        ]
        figures = rows.metadata
        number = {name: float(figures[name]) if name in figures else None for name in ("idim", "idim_error")}
        return Evaluation(
            classes[-1].map,
            classes[-1].precision_at_10,
            number["idim"],
            number["idim_error"],
            figures.get("distance", ""),
            classes[:-1],
        )

    def add(
        self,
        paths: Path | Iterable[Path] = (),
        *,
        source: Store | Path | None = None,
        pivots: Iterable[Path] = (),
        replace: bool = False,
    ) -> None:
        """Adds images, extracted as the store's were, or the objects of another store (`source`).

        Images whose names are there already are left out, unless they `replace` others. Indexes in `pivots` are kept in
        step. Pictures that cannot be read are left out, with a SkippedWarning.
        """
        values: dict[str, Any] = {"replace": replace}
        if updated := [path_of(path) for path in pivots]:
            values["pivots"] = updated
        if source is not None:
            other = source.path if isinstance(source, Store) else path_of(source)
            if other is None:
                raise InputError("vectors in memory are no file: they cannot be added to a store")
            values["from"] = other
        else:
            values["paths"] = paths_of(paths)
            if not values["paths"]:
                raise InputError("there is nothing to add: give paths or a source")
        _warn(*_boxwork.add(self._native, values))
        self._listed = None

    def remove(self, objects: Iterable[Id | str]) -> int:
        """Removes objects, by name or id, all or none; indexes stay in step. Returns how many were removed."""
        names = [each if isinstance(each, str) else self.name(each) for each in objects]
        removed = _boxwork.remove_objects(self._native, names)
        self._listed = None
        return removed

    def compact(self, *, pivots: Iterable[Path] = ()) -> int:
        """Writes a changed store as one file again, with its indexes; objects are numbered anew.

        Returns how many removed objects were forgotten.
        """
        forgotten = _boxwork.compact(self._native, [path_of(path) for path in pivots])
        self._listed = None
        return forgotten

    def index(
        self,
        out: Path,
        *,
        count: int = 32,
        select: str = "random",
        seed: int = 1,
        alpha: float | None = None,
        distance: str | None = None,
        device: str = "cpu",
        replace: bool = False,
        **options: Any,
    ) -> str:
        """Writes an index of `count` pivots, with which searches skip most distances. Returns its path."""
        path = _writable(out, replace)
        values = self._distance(alpha, distance, options)
        values |= {"out": path, "count": count, "select": select, "seed": seed, "device": device}
        _boxwork.make_file(self._native, "index", values)
        return path

    def sketch(
        self,
        out: Path,
        *,
        frequencies: int = 1024,
        seed: int = 1,
        alpha: float | None = None,
        pivots: Path | None = None,
        replace: bool = False,
    ) -> str:
        """Writes the store's sketches, by which :meth:`feedback` bounds large stores. Returns their path.

        They are those of signatures; or, by `pivots`, those of an index that :meth:`index` made, for its distance.
        """
        path = _writable(out, replace)
        if pivots is not None:
            if (frequencies, seed, alpha) != (1024, 1, None):
                raise InputError("`pivots` takes no `frequencies`, `seed` or `alpha`: the index has a distance")
            _boxwork.make_sketch_of(self._native, path_of(pivots), {"out": path})
            return path
        values = given({"out": path, "frequencies": frequencies, "seed": seed, "alpha": alpha})
        _boxwork.make_file(self._native, "sketch", values)
        return path

    def feedback(
        self,
        query: Query | Sequence[Query] | None = None,
        *,
        batch: int = 12,
        explore: float = 0.25,
        seed: int = 1,
        unmarked: str = "weak",
        klass: str | None = None,
        alpha: float | None = None,
        sketch: Path | None = None,
        mode: str = "auto",
        device: str = "auto",
        **options: Any,
    ) -> Session:
        """Begins a search by feedback: see :class:`boxwork.Session`.

        `batch` is the number of objects of a round, `explore` how much the unknown counts, and `klass` a folder to which
        the search keeps. `unmarked` is weak or ignore. `sketch` is a file that :meth:`sketch` made; `mode` auto takes it for
        stores of more than 4,096 objects, `sketch` always, and `exact` never. `device` says where large stores are bounded.
        `options` are further parameters of the pipeline `feedback`, such as `kernel` and `length`.
        """
        from ._feedback import Session

        settings = {"batch": batch, "explore": explore, "seed": seed, "unmarked": unmarked, "class": klass}
        path = None if sketch is None else path_of(sketch)
        bounds = {"sketch": path, "mode": mode, "device": device}
        return Session(self, query, settings, given({"alpha": alpha, **bounds, **options}))


class Vectors(Store):
    """Vectors in memory, as a store.

    The rows of `table` are the vectors; of a table of Arrow, its column of lists, or the one that `column` names. float32,
    float16, uint8 and int8 keep their type, other numbers become float32. A C-contiguous array of these types is used
    where it is, so do not write to it while the vectors are in use; any other is copied once. Without `names` the vectors are named by their row numbers.
    `metric` is l2, ip, cosine, l1, linf, lp (with `p`) or canberra. Distances by ip are negated inner products.
    """

    def __init__(
        self,
        table: npt.ArrayLike | ArrowStream | ArrowArray,
        names: Sequence[str] | None = None,
        metric: str = "l2",
        *,
        p: float | None = None,
        column: str | None = None,
    ) -> None:
        numbers = table_of(table, column)
        self._tables = [numbers]
        self._given_names = None if names is None else list(names)
        self._removed: set[int] = set()
        self.metric, self.p = metric, p
        super().__init__(_native_vectors(self._tables, self._given_names, []))

    def _distance(self, alpha: float | None, distance: str | None, options: dict[str, Any]) -> dict[str, Any]:
        return super()._distance(alpha, distance or self.metric, {"p": self.p, **options})

    def add(  # type: ignore[override]
        self,
        table: npt.ArrayLike | ArrowStream | ArrowArray,
        names: Sequence[str] | None = None,
        *,
        column: str | None = None,
    ) -> npt.NDArray[np.uint64]:
        """Adds the rows of a table, and returns their ids, which follow those that are there.

        Vectors that are there are not copied. New ones become their type, if that holds all of their numbers. Names are given for all vectors or for none.
        """
        numbers = as_type(table_of(table, column), self._tables[0].dtype)
        if (names is None) != (self._given_names is None):
            raise InputError("names are given for all vectors or for none")
        all_names = None if names is None else [*(self._given_names or []), *names]
        first = sum(len(part) for part in self._tables)
        self._make([*self._tables, numbers], all_names, self._removed)
        return np.arange(first, first + len(numbers), dtype=np.uint64)

    def remove(self, objects: Iterable[Id | str]) -> int:
        """Removes vectors, by name or id, all or none. The ids of the others stay. Returns how many were removed."""
        ids = set(self._ids(objects))
        missing = sorted(ids - set(self.ids.tolist()))
        if missing:
            raise InputError(f"there is no vector {missing[0]}; nothing was removed")
        self._make(self._tables, self._given_names, self._removed | ids)
        return len(ids)

    def _make(self, tables: list[npt.NDArray[Any]], names: list[str] | None, removed: set[int]) -> None:
        native = _native_vectors(tables, names, sorted(removed))
        self._tables, self._given_names, self._removed = tables, names, removed
        self._native, self._listed = native, None


def _native_vectors(
    tables: list[npt.NDArray[Any]], names: list[str] | None, removed: list[int]
) -> _boxwork.Store:
    """A store of tables of one type. The buffer protocol has no numbers of 16 bits: they pass as whole ones."""
    kind = NUMBERS[tables[0].dtype]
    return _boxwork.vectors([table.view(np.uint16) if kind == "f16" else table for table in tables], kind, names, removed)


def extract(
    paths: Path | Iterable[Path],
    out: Path,
    *,
    replace: bool = False,
    transform: str = "balanced",
    alpha: float | None = None,
    device: str = "auto",
    restart: bool = False,
    **options: Any,
) -> Store:
    """Extracts the signatures of all images below some folders into a store, and opens it.

    `options` are further parameters of `boxwork extract`, such as `points`, `seeds`, `iterations` and `size`. Pictures that
    cannot be read are left out, with a SkippedWarning. An existing file is kept unless `replace` is true. A call that was
    interrupted is continued by the same call; `restart` begins anew.
    """
    target = _writable(out, replace)
    listed = paths_of(paths)
    made_by = given({"transform": transform, "alpha": alpha, **options})
    values = {"paths": listed, "out": target, "device": device, "restart": restart, **made_by}
    # What an interrupted call has done counts for one with these settings alone.
    values["settings"] = json.dumps(made_by, sort_keys=True)
    # One folder: the names are paths in it.
    if len(listed) == 1 and os.path.isdir(listed[0]):
        values["source"] = listed[0]
    _warn(*_boxwork.extract(given(values)))
    return Store.open(target)


def _looked(metadata: Mapping[str, str]) -> dict[str, Any]:
    """What the queries of an approximate search looked at, as its rows say; nothing if the search was exact."""
    said = {name: metadata.get(f"boxwork.{name}") for name in ("probes", "refine")}
    numbers = {name: int(number) for name, number in said.items() if number is not None}
    return {"exact": metadata.get("boxwork.exact") != "false", **numbers}


def _pipeline(
    values: dict[str, Any],
    each: dict[str, Any],
    k: int | None,
    range: float | None,
    pivots: str | None,
    strategy: str | None,
) -> str:
    """The shipped pipeline of a search; completes its values, and those of each request."""
    by_range = k is None and range is not None
    if not by_range:
        each["k"] = 10 if k is None else k
    if range is not None:
        each["range"] = range
    if strategy is not None and (pivots is None or strategy not in STRATEGIES):
        known = ", ".join(STRATEGIES)
        raise InputError(f"a strategy is one of {known}, for a search with an index (`pivots`), not {strategy!r}")
    if pivots is None or strategy == "scan":
        return "range" if by_range else "search"
    values["pivots"] = pivots
    if by_range:
        if strategy not in (None, "auto"):
            raise InputError(f"the strategy {strategy} finds the nearest objects: give `k`, or leave it out")
        return "indexed_range"
    return STRATEGIES[strategy or "auto"]


def _hits(queries: Sequence[Any], rows: _boxwork.Rows) -> list[Hits]:
    of_query = np.asarray(rows.column("query"))
    ids, distances = np.asarray(rows.column("id")), np.asarray(rows.column("distance"))
    names: list[str] = list(rows.column("name"))  # type: ignore[arg-type]
    bounds = np.searchsorted(of_query, np.arange(len(queries) + 1)).tolist()
    hits = []
    for query, first, end in zip(queries, bounds, bounds[1:], strict=False):
        asked = query if isinstance(query, str) else None
        if isinstance(query, (int, np.integer)):
            asked = int(query)  # type: ignore[assignment]
        elif isinstance(query, os.PathLike):
            asked = path_of(query)
        hits.append(Hits(asked, ids[first:end], distances[first:end], names[first:end]))
    return hits


def _optional(column: Any) -> list[Any]:
    """A column as a list, with None for each null."""
    return column if isinstance(column, list) else np.asarray(column).tolist()


def _class_of(name: str) -> str | None:
    folders, slash, _ = name.rpartition("/")
    return folders.rpartition("/")[2] or None if slash else None


def _writable(out: Path, replace: bool) -> str:
    path = path_of(out)
    if os.path.exists(path) and not replace:
        raise InputError(f"`{path}` exists: choose another name, or say `replace=True`")
    return path


def _warn(skipped: list[tuple[str, str]], count: int) -> None:
    if count == 0:
        return
    shown = "".join(f"\n  {subject}: {message}" for subject, message in skipped[:20])
    more = f"\n  and {count - 20} more" if count > 20 else ""
    warnings.warn(f"{count} items had problems and were left out:{shown}{more}", SkippedWarning, stacklevel=3)
