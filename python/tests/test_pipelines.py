"""Pipelines: checked, run, with Arrow in and out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boxwork as bw
import numpy as np
import pytest

NEAREST = """\
boxwork: 1
about: The nearest of given queries.
parameters:
  store: {type: path}
  k: {type: integer, default: 2, minimum: 1}
resources:
  objects: {kind: store, path: "${store}"}
  space: {kind: space, store: objects}
boxes:
  query: {kind: read_arrow, columns: queries}
  scan: {kind: scan, store: objects}
  distance: {kind: distance, space: space}
  top: {kind: top_k, k: "${k}", space: space}
  results: {kind: write_arrow, columns: distances}
edges:
  - query -> scan.queries -> distance.candidates -> top.distances -> results
  - query -> distance.query
  - query -> top.query
"""


def test_a_shipped_pipeline_gives_the_rows_of_its_sink(store: bw.Store, store_path: Path) -> None:
    pipeline = bw.Pipeline("search")
    assert "k" in {parameter.name for parameter in pipeline.parameters} and pipeline.about
    found = pipeline.run(store=store_path, queries=["class1/001.png", "class2/002.png"], k=3)
    assert list(found) == ["results"]
    rows = found["results"]
    assert rows.column_names == ["query", "rank", "id", "name", "distance"] and len(rows) == 6
    hits = store.search(["class1/001.png", "class2/002.png"], k=3)
    assert np.asarray(rows.column("id")).tolist() == [*hits[0].ids, *hits[1].ids]
    assert np.asarray(rows.column("query")).tolist() == [0, 0, 0, 1, 1, 1]
    # An open store stands for its path; many queries count through.
    names = store.names * 2
    many = pipeline.run(store=store, queries=names, k=1)["results"]
    assert np.asarray(many.column("query")).tolist() == list(range(80)) and many.column("name") == names


def test_a_sink_that_is_given_a_file_writes_it(store_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.csv"
    found = bw.Pipeline("search").run(store=store_path, queries=["000.png"], format="csv", out=out)
    assert found == {} and out.read_text().startswith("query,rank,id,name,distance\n")


def test_rows_go_in_and_out(store: bw.Store, tmp_path: Path) -> None:
    file = tmp_path / "nearest.yaml"
    file.write_text(NEAREST)
    queries = store._native.query_rows([3, 9])
    for source in (NEAREST, str(file), file):
        rows = bw.Pipeline(source).run({"query": queries}, store=store, k=4)["results"]
        assert np.asarray(rows.column("id"))[[0, 4]].tolist() == [3, 9] and len(rows) == 8
    itself = bw.Pipeline("range").run(store=store, queries=["000.png"], range=0.0)["results"]
    assert np.asarray(itself.column("distance")).tolist() == [0.0]


def test_every_fault_has_its_place() -> None:
    text = NEAREST.replace("kind: scan,", "kind: scann,").replace("-> distance.query", "-> distance.quer")
    faults = bw.check(text)
    assert [(fault.line, fault.severity) for fault in faults] == [(11, "error"), (17, "error")]
    assert faults[0].code == "unknown-operator" and "scann" in faults[0].message and faults[0].file == "<text>"
    assert str(faults[0]).startswith("<text>:11:")
    with pytest.raises(bw.PipelineError, match="scann") as raised:
        bw.Pipeline(text)
    assert raised.value.faults == faults
    assert bw.check(NEAREST) == [] and bw.check("search") == []
    assert [fault.code for fault in bw.check("no_such_file.yaml")] == ["unreadable"]
    assert bw.check("boxwork: 1\nboxes: [\n")[0].severity == "error"


def test_all_shipped_pipelines_are_sound() -> None:
    texts = bw.shipped()
    assert "search" in texts and all(bw.check(text) == [] for text in texts.values())
    assert set(texts) >= set(bw.STRATEGIES.values())


def test_bad_runs_get_the_error_that_fits(store: bw.Store) -> None:
    pipeline = bw.Pipeline(NEAREST)
    queries = store._native.query_rows([3])
    with pytest.raises(bw.InputError, match="`k`"):
        pipeline.run({"query": queries}, store=store, k="many")
    with pytest.raises(bw.InputError, match="store"):
        pipeline.run({"query": queries})
    with pytest.raises(bw.InputError, match="no parameter `kk`|did you mean"):
        pipeline.run({"query": queries}, store=store, kk=3)
    with pytest.raises(bw.PipelineError, match="no `path`"):
        pipeline.run(store=store)
    with pytest.raises(bw.PipelineError, match="no such box"):
        pipeline.run({"query": queries, "other": queries}, store=store)
    with pytest.raises(bw.StoreError, match="nowhere"):
        pipeline.run({"query": queries}, store="nowhere.arrow")
    with pytest.raises(bw.InputError, match="__arrow_c_stream__"):
        pipeline.run({"query": 3}, store=store)  # type: ignore[dict-item]
    with pytest.raises(bw.PipelineError, match="no column"):
        pipeline.run({"query": bw.Rows.from_columns({"a": np.zeros(3)})}, store=store)
    with pytest.raises(bw.InputError, match="truth, a number"):
        pipeline.run({"query": queries}, store=store, k=object())


def test_a_deadline_ends_a_run() -> None:
    @bw.box("without_end", input=None, output={"n": "uint64"})
    class WithoutEnd:
        """Gives numbers, and never ends by itself."""

        def finish(self) -> Iterator[dict[str, list[int]]]:
            while True:
                yield {"n": [1]}

    @bw.box("lose", input={"n": "uint64"})
    def lose(rows: bw.Rows) -> None:
        pass

    text = "boxwork: 1\nboxes:\n  source: {kind: without_end}\n  sink: {kind: lose}\nedges: [source -> sink]\n"
    with pytest.raises(bw.PipelineError, match="deadline"):
        bw.Pipeline(text).run(deadline_s_=0.02)
    with pytest.raises(bw.InputError, match="deadline"):
        bw.Pipeline(text).run(deadline_s_=-1)
