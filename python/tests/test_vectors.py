"""Vectors in memory: exact, and without a copy."""

from __future__ import annotations

from pathlib import Path

import boxwork as bw
import numpy as np
import numpy.typing as npt
import pytest


def table(rows: int = 5000, columns: int = 8) -> npt.NDArray[np.float32]:
    return np.random.default_rng(7).normal(size=(rows, columns)).astype(np.float32)


def test_a_table_is_several_queries_and_a_row_is_one() -> None:
    vectors = table()
    store = bw.Vectors(vectors, metric="l2")
    queries = list(table(3) + np.float32(0.25))
    for query, hits in zip(queries, store.search(queries, k=9), strict=True):
        exact = np.sqrt(((vectors.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1))
        order = np.lexsort((np.arange(len(exact)), exact))[:9]
        assert hits.ids.tolist() == order.tolist()
        assert np.allclose(hits.distances, exact[order], rtol=1e-13, atol=0)
    one = store.search(queries[0], k=9)
    assert isinstance(one, bw.Hits) and one.ids.tolist() == store.search(queries, k=9)[0].ids.tolist()
    assert store.search(17, k=1).distances.tolist() == [0.0] and store.search("17", k=1).names == ["17"]


def test_other_metrics_and_names() -> None:
    vectors = table(50)
    store = bw.Vectors(vectors, names=[f"a/{row}" for row in range(50)], metric="l1")
    hits = store.search("a/3", k=50)
    exact = np.abs(vectors.astype(np.float64) - vectors[3].astype(np.float64)).sum(axis=1)
    assert np.allclose(hits.distances, np.sort(exact), rtol=1e-13) and hits.names[0] == "a/3"
    assert store.labels[0] == "a"
    assert bw.Vectors(vectors, metric="lp", p=3).search(0, k=2).distances[0] == 0
    assert store.distances([3], hits.ids)[0].tolist() == hits.distances.tolist()
    assert np.isclose(store.distances(["a/0"], [3])[0, 0], exact[0], rtol=1e-13)


def test_float32_in_order_is_not_copied_and_anything_else_is() -> None:
    vectors = table(3000)
    store = bw.Vectors(vectors)
    far = store.search(vectors[0], k=1)
    assert far.ids.tolist() == [0]
    # Not what a user may do, but it shows whose memory it is.
    vectors[0] += 100
    assert store.search(vectors[0], k=1).distances.tolist() == [0.0]
    for other in (vectors[:, ::2], vectors.astype(np.float64), np.asfortranarray(vectors), vectors.astype(np.int32)):
        copied = bw.Vectors(other)
        before = copied.search(5, k=3).distances.tolist()
        other[:] = 0
        assert copied.search(5, k=3).distances.tolist() == before


def test_the_memory_lives_as_long_as_the_store() -> None:
    store = bw.Vectors(table(2000))
    hits = store.search(3, k=4)
    for _ in range(20):
        np.ones((2000, 8), dtype=np.float32)
    assert store.search(3, k=4).distances.tolist() == hits.distances.tolist()


def test_bad_tables_are_refused() -> None:
    vectors = table(10)
    for bad, reason in [
        (np.zeros(3, dtype=np.float32), "rows of a table"),
        (np.zeros((0, 3), dtype=np.float32), "no vectors"),
        (np.zeros((3, 0), dtype=np.float32), "no vectors"),
        (np.array([["a"]]), "rows of a table"),
    ]:
        with pytest.raises(bw.InputError, match=reason):
            bw.Vectors(bad)
    vectors[7, 2] = np.nan
    with pytest.raises(bw.InputError, match="vector 7: number 2 is NaN"):
        bw.Vectors(vectors)
    # Whatever batch the row is in, of whatever table.
    many = table(5000)
    many[4500, 1] = np.inf
    with pytest.raises(bw.InputError, match="vector 4510: number 1 is inf"):
        bw.Vectors(table(10)).add(many)
    with pytest.raises(bw.InputError, match="65537 numbers, and may have 65536 at most"):
        bw.Vectors(np.zeros((2, 65537), dtype=np.float32))
    vectors[7, 2] = 0
    with pytest.raises(bw.InputError, match="10 vectors have 1 names"):
        bw.Vectors(vectors, names=["a"])
    store = bw.Vectors(vectors)
    with pytest.raises(bw.Error, match="dimension|numbers"):
        store.search(np.zeros(3, dtype=np.float32))
    with pytest.raises(bw.StoreError, match="in memory"):
        store.index("i.pivots.arrow")
    with pytest.raises(bw.Error, match="levenshtein|texts|vectors"):
        bw.Vectors(vectors, metric="levenshtein").search(0)


def test_the_nearest_of_a_table_are_exact_whatever_finds_them(tmp_path: Path) -> None:
    base = table()
    store, queries = bw.Vectors(base), table(30) + np.float32(0.25)
    found = store.nearest(queries, 9)
    exact = np.sqrt(((base[None].astype(np.float64) - queries[:, None].astype(np.float64)) ** 2).sum(axis=2))
    order = np.argsort(exact, axis=1, kind="stable")[:, :9]
    assert (found.ids == order).all()
    assert np.allclose(found.distances, np.take_along_axis(exact, order, axis=1), rtol=1e-13, atol=0)
    saved = store.save(tmp_path / "v.vectors.arrow")
    assert saved.kind == "vectors" and len(saved) == len(store)
    codes = saved.codes(tmp_path / "v.codes.arrow")
    for again in (saved.nearest(queries, 9), saved.nearest(queries, 9, codes=codes)):
        assert (again.ids == found.ids).all() and (again.distances == found.distances).all()
    lists = saved.lists(tmp_path / "v.lists.arrow", lists=16)
    all_probed = saved.nearest(queries, 9, lists=lists, probes=16)
    assert (all_probed.ids == found.ids).all()
    assert (found.exact, found.probes, found.refine) == (True, None, None)
    # All lists were looked into, but the search does not say so.
    assert (all_probed.exact, all_probed.probes, all_probed.refine) == (False, 16, None)
    fast = saved.lists(tmp_path / "f.lists.arrow", lists=16, codes="fast")
    by_codes = saved.nearest(queries, 9, lists=fast)
    assert (by_codes.exact, by_codes.probes, by_codes.refine) == (False, 8, 10)
    near = saved.within(queries, 1.5, lists=fast, probes=3, refine=2)
    assert (near.exact, near.probes, near.refine) == (False, 3, 2)
    few = saved.nearest(queries, 400, lists=lists, probes=1)
    assert few.ids.shape == (30, 400) and (few.ids[:, -1] == bw.NO_ID).any()
    within = store.within(queries, 1.5)
    for row, (first, end) in enumerate(zip(within.starts, within.starts[1:], strict=False)):
        assert set(within.ids[first:end].tolist()) == set(np.flatnonzero(exact[row] <= 1.5).tolist())
    assert store.nearest(queries[0], 3).ids.shape == (1, 3) and store.nearest(base[:2], 10**9).ids.shape == (2, 5000)


def test_queries_among_some_rows_find_only_those(tmp_path: Path) -> None:
    base = table(600)
    queries = table(5) + np.float32(0.25)
    exact = np.sqrt(((base[None].astype(np.float64) - queries[:, None].astype(np.float64)) ** 2).sum(axis=2))
    store = bw.Vectors(base).save(tmp_path / "v.vectors.arrow")
    codes = store.codes(tmp_path / "v.codes.arrow")
    lists = store.lists(tmp_path / "v.lists.arrow", lists=16)
    # In no order, and one twice.
    for few in ([599, 3, 17, 3], list(range(1, 600, 2)), [42]):
        rows = np.unique(few)
        order = np.argsort(exact[:, rows], axis=1, kind="stable")[:, :9]
        for options in ({}, {"codes": codes}, {"lists": lists, "probes": 16}):
            found = store.nearest(queries, 9, among=few, **options)
            assert (found.ids == rows[order]).all(), options
            assert np.allclose(found.distances, np.take_along_axis(exact[:, rows], order, axis=1), rtol=1e-13, atol=0)
        # Lists of which few are probed may miss rows, but find no others.
        probed = store.nearest(queries, 9, among=few, lists=lists, probes=1).ids
        assert np.isin(probed[probed != bw.NO_ID], rows).all()
        within = store.within(queries, 2.5, among=few)
        for row, (first, end) in enumerate(zip(within.starts, within.starts[1:], strict=False)):
            assert set(within.ids[first:end].tolist()) == set(rows[exact[row, rows] <= 2.5].tolist())
    nothing = store.nearest(queries, 9, among=[])
    assert nothing.ids.shape == (5, 0) and len(store.within(queries, 9.0, among=[]).ids) == 0


def test_vectors_are_added_and_removed() -> None:
    base, more = table(100), table(40, 8) + np.float32(9)
    store = bw.Vectors(base)
    assert store.add(more).tolist() == list(range(100, 140)) and len(store) == 140
    assert store.nearest(more[7], 1).ids.tolist() == [[107]]
    assert store.remove([107, 3]) == 2 and len(store) == 138
    assert store.nearest(more[7], 138).ids.max() == 139 and 107 not in store.nearest(more[7], 138).ids
    assert store.ids.tolist() == [id for id in range(140) if id not in (3, 107)]
    for wrong in (lambda: store.remove([3]), lambda: store.remove([140]), lambda: store.remove(range(140))):
        with pytest.raises(bw.InputError):
            wrong()
    with pytest.raises(bw.InputError, match="8"):
        store.add(np.ones((2, 5)))
    with pytest.raises(bw.InputError, match="names"):
        store.add(more, names=["a"] * 40)
    assert len(store) == 138
    named = bw.Vectors(base[:2], names=["a", "b"])
    assert named.add(base[2:3], names=["c"]).tolist() == [2] and named.remove(["a"]) == 1
    assert named.search(base[2], k=2).names[0] == "c"


def test_vectors_that_are_saved_forget_what_was_removed(tmp_path: Path) -> None:
    store = bw.Vectors(table(50))
    store.remove(range(10))
    saved = store.save(tmp_path / "v.vectors.arrow")
    assert len(saved) == 40 and saved.names[0] == "10" and saved.ids.tolist() == list(range(40))
    with pytest.raises(bw.InputError):
        store.save(tmp_path / "v.vectors.arrow")


@pytest.mark.parametrize("kind", [np.float16, np.uint8, np.int8])
def test_narrow_numbers_keep_their_type_and_the_answers_of_float32(kind: type, tmp_path: Path) -> None:
    numbers = np.random.default_rng(3).integers(0, 100, size=(3000, 8))
    narrow, wide = bw.Vectors(numbers.astype(kind)), bw.Vectors(numbers.astype(np.float32))
    for metric in ("l2", "ip", "cosine"):
        a, b = (store.nearest(numbers[:20], 7, distance=metric) for store in (narrow, wide))
        assert (a.ids == b.ids).all() and (a.distances == b.distances).all()
    saved = [store.save(tmp_path / f"{name}.arrow") for name, store in (("narrow", narrow), ("wide", wide))]
    sizes = [(tmp_path / f"{name}.arrow").stat().st_size for name in ("narrow", "wide")]
    assert sizes[0] < sizes[1] and len(saved[0]) == 3000
    # What is added becomes the type, if that holds it.
    added = narrow.add(np.full((2, 8), 5, dtype=np.int64))
    assert added.tolist() == [3000, 3001] and narrow.nearest(np.full((1, 8), 5), 1).distances[0, 0] == 0
    if kind is not np.float16:
        with pytest.raises(bw.InputError, match="does not hold all of their numbers"):
            narrow.add(np.full((1, 8), 0.5, dtype=np.float32))


def test_vectors_come_from_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    numbers = np.random.default_rng(5).integers(0, 200, size=(500, 6)).astype(np.uint8)
    flat = pyarrow.array(numbers.ravel())
    fixed = pyarrow.FixedSizeListArray.from_arrays(flat, 6)
    for lists in (fixed, pyarrow.array(numbers.tolist(), type=pyarrow.list_(pyarrow.uint8()))):
        store = bw.Vectors(pyarrow.table({"label": ["a"] * 500, "vector": lists}))
        assert (store.nearest(numbers[:9], 3).ids == bw.Vectors(numbers).nearest(numbers[:9], 3).ids).all()
    two = pyarrow.table({"one": fixed, "other": fixed})
    assert len(bw.Vectors(two, column="other")) == 500
    for table, column, reason in [
        (two, None, "more than one column"),
        (two, "third", "`third` is no column of vectors"),
        (pyarrow.table({"label": ["a"]}), None, "no column of vectors"),
        (pyarrow.table({"v": [[1.0], [1.0, 2.0]]}), None, "vector 1 has 2 numbers, and the first 1"),
    ]:
        with pytest.raises(bw.InputError, match=reason):
            bw.Vectors(table, column=column)
