"""Searches, distances, evaluations: equal to the command's to the bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import boxwork as bw
import numpy as np
import pytest
from conftest import picture, write_png


def test_a_store_says_what_it_holds(store: bw.Store, store_path: Path) -> None:
    assert (len(store), store.kind, store.path) == (40, "signatures", str(store_path))
    assert store.names[0] == "class0/000.png" and store.labels[0] == "class0"
    assert store.ids.dtype == np.uint64 and store.ids.tolist() == list(range(40))
    assert store.id("class3/003.png") == store.names.index("class3/003.png")
    assert store.name(7) == store.names[7] and store.alpha is not None and store.fingerprint
    with pytest.raises(bw.InputError, match="class9"):
        store.id("class9/000.png")


def test_a_store_stays_where_it_was_opened(
    own: bw.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own.path is not None
    monkeypatch.chdir(tmp_path)
    store = bw.Store.open(Path(own.path).name)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert store.path == own.path and store.search(0, k=1).ids.tolist() == [0]
    store.refresh()
    assert store.remove([0]) == 1
    del store
    assert list(elsewhere.iterdir()) == []


def test_searches_equal_the_commands_to_the_bit(
    store: bw.Store, store_path: Path, command: Callable[..., str]
) -> None:
    names = ["class1/001.png", "003.png", "class4/039.png"]
    told = command("search", "--store", store_path, "-k", "7", "--format", "json", *(f"--query={n}" for n in names))
    expected = json.loads(told)["queries"]
    found = store.search(names, k=7)
    assert [hits.query for hits in found] == names
    for hits, answer in zip(found, expected, strict=True):
        assert hits.ids.tolist() == [hit["id"] for hit in answer["results"]]
        assert hits.names == [hit["name"] for hit in answer["results"]]
        # Equal to the bit: both are the shortest text of one number.
        assert hits.distances.tolist() == [hit["distance"] for hit in answer["results"]]


def test_a_query_is_a_name_a_path_an_id_or_a_picture(store: bw.Store, photographs: Path) -> None:
    path = photographs / "class2" / "012.png"
    by_name = store.search("class2/012.png", k=5)
    by_path, by_id = store.search(path, k=5), store.search(store.id("class2/012.png"), k=5)
    by_pixels, turned = store.search(picture(12), k=5), store.search(picture(12)[::-1][::-1], k=5)
    for hits in (by_path, by_id, by_pixels, turned):
        assert hits.ids.tolist() == by_name.ids.tolist()
        assert hits.distances.tolist() == by_name.distances.tolist()
    assert by_name.distances[0] == 0 and (by_path.query, by_id.query) == (str(path), store.id("class2/012.png"))
    mixed = store.search([path, "class2/012.png", by_name.ids[0], picture(12)] * 20, k=5)
    assert len(mixed) == 80 and all(hits.ids.tolist() == by_name.ids.tolist() for hits in mixed)
    assert list(by_name)[0] == (by_name.ids[0], "class2/012.png", 0.0)
    assert store.search([]) == []


def test_ranges_and_distances(store: bw.Store) -> None:
    everything = store.search(3, k=40)
    radius = float(everything.distances[9])
    within = store.search(3, range=radius)
    assert within.ids.tolist() == everything.ids[: len(within)].tolist() and len(within) >= 10
    both = store.search(3, k=4, range=radius)
    assert both.ids.tolist() == everything.ids[:4].tolist()
    steep = store.search(3, k=40, alpha=2.5)
    assert steep.distances.tolist() != everything.distances.tolist()

    table = store.distances(range(6))
    assert table.shape == (6, 6) and table.dtype == np.float64
    assert np.allclose(table, table.T, rtol=1e-12, atol=0) and not table.diagonal().any()
    row = store.distances([3], everything.ids)
    assert row[0].tolist() == everything.distances.tolist()
    assert store.distances(["class3/003.png"], [0, 1], alpha=2.5).shape == (1, 2)
    assert store.distances([], [1]).shape == (0, 1)


def test_an_index_changes_no_answer(own: bw.Store, tmp_path: Path) -> None:
    path = own.index(tmp_path / "own.pivots.arrow", count=4)
    plain = own.search(["class0/000.png", 7], k=6)
    for strategy in bw.STRATEGIES:
        found = own.search(["class0/000.png", 7], k=6, pivots=path, strategy=strategy)
        assert [hits.ids.tolist() for hits in found] == [hits.ids.tolist() for hits in plain]
    assert own.search(7, range=0.3, pivots=path).ids.tolist() == own.search(7, range=0.3).ids.tolist()
    with pytest.raises(bw.InputError, match="best_first finds the nearest"):
        own.search(7, range=0.3, pivots=path, strategy="best_first")
    with pytest.raises(bw.InputError, match="replace"):
        own.index(path)


def test_evaluations_equal_the_commands(store: bw.Store, store_path: Path, command: Callable[..., str]) -> None:
    expected = json.loads(command("evaluate", "--store", store_path, "--alpha", "1.28", "--format", "json"))
    found = store.evaluate(alpha=1.28)
    assert (found.map, found.precision_at_10) == (expected["map"], expected["precision_at_10"])
    assert (found.idim, found.idim_error) == (expected["idim"], expected["idim_error"])
    assert found.distance == expected["distance"] and len(found.classes) == 5
    for quality in found.classes:
        of_class = expected["classes"][quality.name]
        assert (quality.map, quality.objects) == (of_class["map"], of_class["objects"])


def test_a_store_changes(own: bw.Store, tmp_path: Path) -> None:
    pivots = own.index(tmp_path / "own.pivots.arrow", count=4)
    for seed in (100, 101):
        write_png(tmp_path / "new" / "class9" / f"{seed}.png", picture(seed))
    before = own.search(0, k=3)
    own.add(tmp_path / "new", pivots=[pivots])
    assert len(own) == 42 and "class9/100.png" in own.names
    assert own.search("class9/101.png", k=1).distances.tolist() == [0.0]
    assert own.search(0, k=3, pivots=pivots).ids.tolist() == own.search(0, k=3).ids.tolist()
    # Results keep what they had.
    assert before.names == own.search(0, k=3).names or len(before) == 3
    assert own.remove(["class9/100.png", own.id("class0/000.png")]) == 2
    assert len(own) == 40 and 0 not in own.ids
    with pytest.raises(bw.InputError, match="nothing was removed"):
        own.remove(["class1/001.png", "class9/100.png"])
    assert own.compact(pivots=[pivots]) == 2 and own.ids.tolist() == list(range(40))
    other = bw.Store.open(own.path or "")
    other.remove([0])
    assert len(own) == 40
    own.refresh()
    assert len(own) == 39


def test_objects_of_another_store_are_added(own: bw.Store, store: bw.Store) -> None:
    own.remove(store.names[:3])
    own.add(source=store, replace=True)
    assert sorted(own.names) == sorted(store.names)


def test_pictures_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    write_png(tmp_path / "in" / "a.png", picture(1))
    (tmp_path / "in" / "b.png").write_bytes(b"no picture")
    with pytest.warns(bw.SkippedWarning, match=r"1 items had problems[\s\S]*b\.png"):
        made = bw.extract(tmp_path / "in", tmp_path / "made.arrow")
    # As the command names it: a picture that lies in the folder itself is named with the folder.
    assert made.names == ["in/a.png"]
    with pytest.raises(bw.InputError, match="replace"):
        bw.extract(tmp_path / "in", tmp_path / "made.arrow")


def test_bad_input_gets_an_error_that_says_what_to_do(store: bw.Store, tmp_path: Path) -> None:
    wrong: list[tuple[object, str]] = [
        ("class1/002.png", "did you mean"),
        (99, "object 99"),
        (-1, "an id is from 0"),
        (True, "not a truth"),
        (np.zeros((4, 4), dtype=np.uint8), "height, width, 3"),
        (np.zeros((4, 4, 3)), "uint8"),
        (np.zeros((0, 4, 3), dtype=np.uint8), "0 pixels|4 x 0"),
    ]
    for query, reason in wrong:
        with pytest.raises(bw.InputError, match=reason):
            store.search([query])  # type: ignore[list-item]
    with pytest.raises(ValueError):
        store.search(0, k=0)
    with pytest.raises(bw.InputError, match="alpha"):
        store.search(0, alpha=-1)
    with pytest.raises(bw.Error, match="did you mean `l2`|levenshtein|l22"):
        store.search(0, distance="l22")
    with pytest.raises(bw.InputError, match="strategy"):
        store.search(0, strategy="auto")
    with pytest.raises(bw.InputError, match="no object 99"):
        store.distances([99])
    with pytest.raises(bw.StoreError, match="nowhere"):
        bw.Store.open(tmp_path / "nowhere.arrow")
    (tmp_path / "text.arrow").write_text("no store")
    with pytest.raises(bw.StoreError, match=r"text\.arrow"):
        bw.Store.open(tmp_path / "text.arrow")
