"""Arrow in and out, by the PyCapsule interface alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boxwork as bw
import numpy as np
import pytest
from conftest import run_python

COLUMNS = {
    "id": np.arange(5, dtype=np.uint64),
    "name": ["a", "ü", "", "d", "e"],
    "distance": np.linspace(0, 1, 5),
}


def test_no_arrow_library_is_imported() -> None:
    text = """
import sys, boxwork as bw, numpy as np
rows = bw.Rows.from_columns({"a": np.arange(3, dtype=np.uint64), "b": ["x", "y", "z"]})
assert len(bw.Rows(rows)) == 3 and np.asarray(rows.column("a")).tolist() == [0, 1, 2]
loaded = {"pyarrow", "polars", "pandas", "duckdb", "nanoarrow"} & set(sys.modules)
assert not loaded, loaded
"""
    done = run_python(text)
    assert done.returncode == 0, done.stderr


class Stream:
    """A table that has nothing but the interface."""

    def __init__(self, rows: bw.Rows) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


class Array:
    """A batch that has nothing but the interface."""

    def __init__(self, rows: bw.Rows) -> None:
        self._rows = rows

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_array__(requested_schema)


def test_rows_come_back_as_they_went() -> None:
    rows = bw.Rows.from_columns(dict(COLUMNS))
    for other in (rows, Stream(rows), Array(rows)):
        again = bw.Rows(other)
        assert again.column_names == ["id", "name", "distance"] and len(again) == 5
        assert np.asarray(again.column("distance")).tolist() == COLUMNS["distance"].tolist()  # type: ignore[attr-defined]
        assert again.column("name") == COLUMNS["name"]
    assert "id: UInt64" in repr(rows)
    numbers = np.asarray(rows.column("id"))
    assert not numbers.flags.writeable and numbers.dtype == np.uint64
    with pytest.raises(bw.InputError, match="no column `x`; there are id, name, distance"):
        rows.column("x")


def test_numbers_are_not_copied() -> None:
    column = np.arange(1000, dtype=np.float64)
    rows = bw.Rows.from_columns({"x": column})
    shared = np.asarray(rows.column("x"))
    assert shared.ctypes.data == column.ctypes.data
    del rows, column
    assert shared.sum() == 499500


def test_capsules_may_be_left_unused() -> None:
    rows = bw.Rows.from_columns(dict(COLUMNS))
    for _ in range(1000):
        rows.__arrow_c_stream__()
        rows.__arrow_c_array__()
        rows.__arrow_c_schema__()
    assert rows.column("name") == COLUMNS["name"]


def test_a_capsule_that_was_used_is_refused_the_second_time() -> None:
    capsule = bw.Rows.from_columns(dict(COLUMNS)).__arrow_c_stream__()

    class Once:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return capsule

    assert len(bw.Rows(Once())) == 5
    with pytest.raises(bw.InputError):
        bw.Rows(Once())

    class Wrong:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return "no capsule"

    with pytest.raises(TypeError):
        bw.Rows(Wrong())


def test_pyarrow_and_back(store: bw.Store) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    hits = store.search(0, k=5)
    table = pyarrow.table(hits)
    assert table.column("distance").to_pylist() == hits.distances.tolist()
    assert table.schema.field("name").type == pyarrow.string()
    assert pyarrow.record_batch(hits.to_arrow()).num_rows == 5
    large = table.set_column(2, "name", table.column("name").cast(pyarrow.large_string()))
    chunked = pyarrow.concat_tables([large, large])
    again = bw.Rows(chunked)
    assert again.column("name") == hits.names * 2 and len(again) == 10
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, iter(table.to_batches()))
    assert bw.Rows(reader).column("name") == hits.names
    fixed = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array([1.0, 2.0, 3.0, 4.0], pyarrow.float32()), 2)
    assert "List" in repr(bw.Rows(pyarrow.table({"object": fixed})))
    nulls = bw.Rows(pyarrow.table({"x": [1.0, None]}))
    assert nulls.column("x") == [1.0, None]


def test_polars_and_back(store: bw.Store) -> None:
    polars = pytest.importorskip("polars")
    hits = store.search(0, k=5)
    frame = polars.DataFrame(hits)
    assert frame["name"].to_list() == hits.names
    again = bw.Rows(frame.filter(polars.col("rank") > 2))
    assert again.column("name") == hits.names[2:]


def test_duckdb_reads_rows(store: bw.Store) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    rows: Any = store.search(0, k=5).to_arrow()
    assert duckdb.sql("select count(*) from rows where rank <= 3").fetchall() == [(3,)]


def test_a_stream_feeds_a_pipeline_as_it_comes(store: bw.Store, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    out = tmp_path / "copy.arrow"
    text = f"""\
boxwork: 1
boxes:
  rows: {{kind: read_arrow, columns: distances}}
  file: {{kind: write_arrow, columns: distances, out: {str(out)!r}}}
edges: [rows -> file]
"""
    made: list[int] = []

    def batches() -> Any:
        for query in range(40):
            made.append(query)
            hits = store.search(query, k=3)
            columns = [np.full(3, query, dtype=np.uint32), hits.ids, hits.distances]
            yield pyarrow.record_batch([pyarrow.array(column) for column in columns], schema=schema)

    kinds = [("query", pyarrow.uint32()), ("id", pyarrow.uint64()), ("distance", pyarrow.float64())]
    schema = pyarrow.schema(kinds)
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    assert bw.Pipeline(text).run({"rows": reader}) == {} and len(made) == 40
    with pyarrow.ipc.open_file(out) as file:
        assert file.read_all().num_rows == 120
