"""Boxes written in Python."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import boxwork as bw
import numpy as np
import pytest

NUMBERS = {"n": "uint64", "word": "str"}


@bw.box("count_up", input=None, output=NUMBERS)
class CountUp:
    """Gives numbers."""

    def __init__(self, count: int = 10) -> None:
        self.count = count

    def finish(self) -> Iterator[dict[str, Any]]:
        for first in range(0, self.count, 4):
            numbers = np.arange(first, min(first + 4, self.count))
            yield {"n": numbers, "word": [f"word {number}" for number in numbers]}


@bw.box("keep_multiples", input=NUMBERS, output=NUMBERS)
def keep_multiples(rows: bw.Rows, of: int) -> dict[str, Any] | None:
    """Keeps the multiples of a number."""
    numbers, words = np.asarray(rows.column("n")), rows.column("word")
    kept = numbers % of == 0
    if not kept.any():
        return None
    return {"n": numbers[kept], "word": [word for word, keep in zip(words, kept) if keep]}  # type: ignore[arg-type]


TAKEN: list[int] = []


@bw.box("take", input=NUMBERS)
class Take:
    """Takes all, at the end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def process(self, rows: bw.Rows) -> None:
        self.numbers += np.asarray(rows.column("n")).tolist()

    def finish(self) -> None:
        TAKEN[:] = self.numbers


def chain(box: str, source: str = "{kind: count_up, count: 30}") -> str:
    return f"""\
boxwork: 1
boxes:
  numbers: {source}
  box: {box}
  sink: {{kind: take}}
edges:
  - numbers -> box -> sink
"""


def test_boxes_of_python_are_operators_like_any_other() -> None:
    assert bw.check(chain("{kind: keep_multiples, of: 7}")) == []
    bw.Pipeline(chain("{kind: keep_multiples, of: 7}")).run()
    assert TAKEN == [0, 7, 14, 21, 28]
    faults = bw.check(chain("{kind: keep_multiples, off: 7}"))
    assert [fault.line for fault in faults] == [4, 4] and "no parameter `off`" in faults[1].message
    assert "whole number" in bw.check(chain("{kind: keep_multiples, of: some}"))[0].message
    assert "keep_multiples" in str(bw.check(chain("{kind: keep_multiple, of: 7}"))[0].help)
    # Its columns are checked against those of its neighbours.
    assert bw.check(chain("{kind: top_k, space: none}")) != []


def test_a_box_of_python_works_between_boxes_of_boxwork(store: bw.Store) -> None:
    @bw.box("double", input="distances", output="distances", sides={"query": "queries"})
    class Double:
        """Doubles distances."""

        def __init__(self, query: bw.Rows) -> None:
            assert query.column("name") == ["class1/001.png"]

        def process(self, rows: bw.Rows) -> bw.Rows:
            columns = {name: np.asarray(rows.column(name)) for name in rows.column_names}
            columns["distance"] = columns["distance"] * 2
            return bw.Rows.from_columns(columns)

    text = bw.shipped()["search"].replace("  results:  {", "  double:   {kind: double}\n  results:  {")
    text = text.replace("-> top.distances -> results.results", "-> top.distances -> double.in -> results.results")
    text = text.replace("  - query -> top.query", "  - query -> top.query\n  - query -> double.query")
    found = bw.Pipeline(text).run(store=store, queries=["class1/001.png"], k=5)["results"]
    hits = store.search("class1/001.png", k=5)
    assert np.asarray(found.column("distance")).tolist() == (hits.distances * 2).tolist()


def test_an_exception_ends_the_request_with_its_traceback() -> None:
    @bw.box("fail_at", input=NUMBERS, output=NUMBERS)
    def fail_at(rows: bw.Rows, number: int = 9) -> bw.Rows:
        if number in np.asarray(rows.column("n")):
            raise KeyError("the ninth one")
        return rows

    with pytest.raises(bw.PipelineError) as raised:
        bw.Pipeline(chain("{kind: fail_at}")).run()
    message = str(raised.value)
    assert "box `box`" in message and "Traceback" in message and "in fail_at" in message
    assert "KeyError: 'the ninth one'" in message and "test_boxes.py" in message
    # The engine goes on.
    bw.Pipeline(chain("{kind: fail_at, number: 99}")).run()
    assert TAKEN == list(range(30))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"n": [1, 2]}, "no column `word`"),
        ({"n": [1.5], "word": ["a"]}, None),
        (7, "rows, several of them, or None"),
        ([7], "__arrow_c_stream__"),
        ({"n": [1], "word": [1]}, None),
    ],
)
def test_what_is_no_rows_is_refused(result: Any, reason: str | None) -> None:
    @bw.box("strange", input=NUMBERS, output=NUMBERS)
    def strange(rows: bw.Rows) -> Any:
        return result

    pipeline = bw.Pipeline(chain("{kind: strange}", "{kind: count_up, count: 4}"))
    if reason is None:
        pipeline.run()
        assert TAKEN == [1]
    else:
        with pytest.raises(bw.PipelineError, match=reason):
            pipeline.run()


def test_registrations_are_checked() -> None:
    with pytest.raises(bw.InputError, match="operator of boxwork"):
        bw.box("scan", input=NUMBERS)(lambda rows: rows)
    with pytest.raises(bw.InputError, match="annotation"):

        @bw.box("untyped", input=NUMBERS)
        def untyped(rows, limit):  # type: ignore[no-untyped-def]
            return rows

    with pytest.raises(bw.InputError, match="complex"):
        bw.box("odd", input={"z": "complex"})(lambda rows: rows)
    with pytest.raises(bw.InputError, match="did you mean `distances`|distances"):
        bw.box("odd", input="distance")(lambda rows: rows)


def test_a_generator_is_taken_from_as_long_as_there_is_room() -> None:
    made = []

    @bw.box("endless", input=None, output=NUMBERS)
    class Endless:
        """Never ends by itself."""

        def finish(self) -> Iterator[dict[str, Any]]:
            number = 0
            while True:
                made.append(number)
                yield {"n": [number], "word": [""]}
                number += 1

    @bw.box("first_ten", input=NUMBERS, output=NUMBERS)
    class FirstTen:
        """Fails after ten."""

        def __init__(self) -> None:
            self.count = 0

        def process(self, rows: bw.Rows) -> None:
            self.count += len(rows)
            if self.count >= 10:
                raise StopAsyncIteration("enough")

    with pytest.raises(bw.PipelineError, match="enough"):
        bw.Pipeline(chain("{kind: first_ten}", "{kind: endless}")).run()
    assert 10 <= len(made) < 1000


def test_other_threads_run_while_a_call_computes(store: bw.Store) -> None:
    may_run, has_run = threading.Event(), threading.Event()

    def run() -> None:
        may_run.wait()
        has_run.set()

    thread = threading.Thread(target=run)
    thread.start()
    before = sys.getswitchinterval()
    # Nobody takes the lock away: the other thread runs only if a call lets go of it.
    sys.setswitchinterval(1000)
    try:
        may_run.set()
        for _ in range(1000):
            store.evaluate()
            if has_run.is_set():
                break
        assert has_run.is_set()
    finally:
        sys.setswitchinterval(before)
        may_run.set()
        thread.join()


def test_threads_search_at_once(store: bw.Store) -> None:
    expected = [store.search(query, k=4).ids.tolist() for query in range(8)]
    found: list[Any] = [None] * 8

    def search(query: int) -> None:
        for _ in range(20):
            found[query] = store.search(query, k=4).ids.tolist()

    threads = [threading.Thread(target=search, args=(query,)) for query in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
