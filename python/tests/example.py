"""A program of a user, for mypy."""

from __future__ import annotations

import boxwork as bw
import numpy as np
import numpy.typing as npt


def nearest(path: str, queries: list[str]) -> dict[str, list[str]]:
    store = bw.Store.open(path)
    found: list[bw.Hits] = store.search(queries, k=3)
    one: bw.Hits = store.search("cat.jpg", alpha=0.5)
    table: npt.NDArray[np.float64] = store.distances(one.ids, [0, "cat.jpg"])
    assert table.shape == (len(one), 2)
    quality: float | None = store.evaluate().map
    assert quality is not None
    return {str(hits.query): hits.names for hits in found}


def judged(store: bw.Store) -> list[str]:
    session = store.feedback(query="cat.jpg", batch=12)
    first = session.round()
    second: bw.Round = session.mark(like=first.ids[:2], dislike=[first.ids[5]], scores={7: 0.5})
    session.undo()
    why = session.why(second.ids[0])
    return [share.name for share in why.marks]


def piped(store: bw.Store) -> int:
    rows: bw.Rows = bw.Pipeline("search").run(store=store, queries=["a"])["results"]
    faults: list[bw.Fault] = bw.check("search")
    return len(rows) + len(faults)


@bw.box("keep_near", input="distances", output="distances")
def keep_near(rows: bw.Rows, limit: float = 0.5) -> dict[str, npt.NDArray[np.generic]]:
    kept = np.asarray(rows.column("distance")) < limit
    return {name: np.asarray(rows.column(name))[kept] for name in rows.column_names}


def vectors(table: npt.NDArray[np.float32]) -> bw.Hits:
    query: npt.NDArray[np.float32] = table[0]
    return bw.Vectors(table, metric="l1").search(query, k=5)
