"""Search by feedback: deterministic, with undo and redo, saved and loaded."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import boxwork as bw
import numpy as np
import pytest
from conftest import picture


def of_class(store: bw.Store, round: bw.Round, label: str) -> list[int]:
    """The objects of a round that are of a class."""
    return [id for id, name in zip(round.ids.tolist(), round.names, strict=True) if name.startswith(label)]


def test_a_session_finds_a_class(store: bw.Store) -> None:
    session = store.feedback(query="class2/002.png", batch=4, seed=3)
    found: list[int] = []
    for _ in range(4):
        shown = session.round()
        liked = of_class(store, shown, "class2")
        found += liked
        session.mark(like=liked, dislike=[id for id in shown.ids.tolist() if id not in liked])
    # 7 of 39 are left to be found; by chance 3 of 16 would be.
    assert len(found) >= 5
    assert len(set(session.shown)) == len(session.shown) and store.id("class2/002.png") not in session.shown


def test_rounds_are_equal_in_every_session(store: bw.Store) -> None:
    def play() -> list[list[int]]:
        session = bw.Store.open(store.path or "").feedback(batch=5, seed=9)
        rounds = [session.round().ids.tolist()]
        for _ in range(3):
            first, *_, last = rounds[-1]
            rounds.append(session.mark(like=[first], dislike=[last]).ids.tolist())
        return rounds

    first = play()
    assert first == play() and len({id for ids in first for id in ids}) == 20
    other = store.feedback(batch=5, seed=10).round().ids.tolist()
    assert other[0] != first[0][0] or other != first[0]


def test_a_round_equals_the_commands(store: bw.Store, store_path: Path, command: Callable[..., str]) -> None:
    told = command(
        "run",
        "feedback",
        "--set",
        f"store={store_path}",
        "--set",
        "marks=[class1/001.png=1]",
        "--set",
        "seen=[class1/001.png]",
        "--set",
        "batch=6",
        "--set",
        "format=json",
    )
    objects = json.loads(told)["round"]
    objects = objects.get("objects", objects.get("round", objects)) if isinstance(objects, dict) else objects
    shown = store.feedback(query="class1/001.png", batch=6).round()
    assert [each["id"] for each in objects] == shown.ids.tolist()
    assert [each["mean"] for each in objects] == shown.means.tolist()


def test_rounds_of_sketches_equal_the_commands(
    own: bw.Store, tmp_path: Path, command: Callable[..., str]
) -> None:
    sketch = own.sketch(tmp_path / "s.sketch.arrow", frequencies=256)
    session = own.feedback(query=own.names[0], batch=4, sketch=sketch, mode="sketch", rerank=6)
    call = ["feedback", "--store", own.path, "--like", own.names[0], "--batch", "4", "--format", "json"]
    bounds = ["--sketch", sketch, "--mode", "sketch", "--rerank", "6"]
    expected = json.loads(command(*call, *bounds))["round"]
    assert session.round().names == [row["name"] for row in expected]
    ranked, reasons = session.ranking(3), session.why(0)
    assert len(ranked) == 3 and reasons.marks[0].name == own.names[0]
    with pytest.raises(bw.InputError, match="already there|replace"):
        own.sketch(sketch)


def test_sketches_of_an_index_equal_the_commands(
    own: bw.Store, tmp_path: Path, command: Callable[..., str]
) -> None:
    index = own.index(tmp_path / "own.pivots.arrow", count=4, similarity="minus", alpha=1.0)
    sketch = own.sketch(tmp_path / "own.sketch.arrow", pivots=index)
    other = tmp_path / "command.sketch.arrow"
    command("sketch", "--store", own.path, "--pivots", index, "--out", str(other))
    assert Path(sketch).read_bytes() == other.read_bytes()
    none = tmp_path / "none.sketch.arrow"
    with pytest.raises(bw.InputError, match="the index has a distance"):
        own.sketch(none, pivots=index, frequencies=256)
    with pytest.raises(bw.InputError, match="the index has a distance"):
        own.sketch(none, pivots=index, alpha=0.5)
    with pytest.raises(bw.StoreError, match="index"):
        own.sketch(none, pivots=own.path)
    assert not none.exists()


def test_undo_and_redo_move_between_rounds(store: bw.Store) -> None:
    session = store.feedback(batch=4)
    first = session.round()
    assert first.number == 1 and not session.can_undo and not session.can_redo
    second = session.mark(like=first.ids[:1])
    third = session.mark(dislike=second.ids[:2])
    assert (second.number, third.number) == (2, 3) and len(session.marks) == 3
    assert session.undo().ids.tolist() == second.ids.tolist()
    assert len(session.marks) == 1 and session.can_redo and len(session.shown) == 8
    assert session.redo().ids.tolist() == third.ids.tolist() and len(session.marks) == 3
    session.undo()
    other = session.mark(like=second.ids[:2])
    assert not session.can_redo and session.marks[int(second.ids[0])] == 1.0
    # The same as if nothing had been undone.
    fresh = store.feedback(batch=4)
    fresh.mark(like=fresh.round().ids[:1])
    assert fresh.mark(like=fresh.round().ids[:2]).ids.tolist() == other.ids.tolist()
    with pytest.raises(bw.InputError, match="nothing was undone"):
        session.redo()
    while session.can_undo:
        session.undo()
    with pytest.raises(bw.InputError, match="first round"):
        session.undo()


def test_judgements_change_and_are_taken_back(store: bw.Store) -> None:
    session = store.feedback(batch=4)
    ids = session.round().ids.tolist()
    session.mark(scores={ids[0]: 0.75, ids[1]: 0.0})
    session.mark(scores={ids[1]: None, ids[0]: 0.25})
    assert session.marks == {ids[0]: 0.25}
    session.explore = 2
    assert session.mark().number == 4 and session.explore == 2.0
    for bad, reason in [({ids[0]: 1.5}, "from 0 to 1"), ({ids[0]: float("nan")}, "from 0 to 1"), ({99: 1.0}, "99")]:
        with pytest.raises(bw.InputError, match=reason):
            session.mark(scores=bad)
    with pytest.raises(bw.InputError, match="judged twice"):
        session.mark(like=[ids[0]], dislike=[ids[0]])
    assert session.round().number == 4 and session.marks == {ids[0]: 0.25}


def test_a_session_ends_when_all_was_shown(store: bw.Store) -> None:
    session = store.feedback(batch=16)
    assert not session.round().exhausted
    session.mark()
    last = session.mark()
    assert last.exhausted and len(last) == 8
    empty = session.mark()
    assert empty.exhausted and len(empty) == 0 and len(session.shown) == 40


def test_a_session_is_saved_and_loaded(own: bw.Store, tmp_path: Path) -> None:
    session = own.feedback(query="class3/003.png", batch=4, explore=0.5)
    first = session.round()
    second = session.mark(like=first.ids[:1], dislike=first.ids[1:2])
    session.explore = 1.0
    third = session.mark(scores={int(second.ids[0]): 0.5})
    session.undo()
    path = tmp_path / "session.jsonl"
    session.save(path)
    assert os.listdir(tmp_path).count("session.jsonl") == 1
    again = bw.Session.load(path, own)
    assert again.round().ids.tolist() == second.ids.tolist() and again.marks == session.marks
    assert again.explore == 1.0 and again.redo().ids.tolist() == third.ids.tolist()
    again.save(path)
    # Objects are named, so their ids may change.
    own.remove(["class0/000.png"] if "class0/000.png" not in third.names + first.names + second.names else ["class0/005.png"])
    with pytest.raises(bw.Error):
        text = path.read_text().replace("class3", "class7")
        path.write_text(text)
        bw.Session.load(path, own)
    path.write_text('{"boxwork_session": 9}\n')
    with pytest.raises(bw.InputError, match="version 1"):
        bw.Session.load(path, own)
    path.write_text("no session")
    with pytest.raises(bw.InputError, match="no session"):
        bw.Session.load(path, own)
    with pytest.raises(bw.InputError, match="array cannot be saved"):
        own.feedback(query=picture(3)).save(path)


def test_a_query_is_a_picture_too(store: bw.Store, photographs: Path) -> None:
    by_picture = store.feedback(query=picture(7), batch=5).round()
    by_path = store.feedback(query=photographs / "class2" / "007.png", batch=5).round()
    assert by_picture.ids.tolist() == by_path.ids.tolist()
    # The picture is in the store, under a name that was not asked for.
    assert store.id("class2/007.png") in by_picture.ids


def test_ranking_and_why(store: bw.Store) -> None:
    session = store.feedback(query="class2/002.png", batch=4)
    shown = session.round()
    liked = of_class(store, shown, "class2")
    session.mark(like=liked, dislike=[id for id in shown.ids if id not in liked])
    ranking = session.ranking(10)
    assert len(ranking) == 10 and (np.diff(ranking.means) <= 0).all()
    why = session.why(int(ranking.ids[3]))
    assert abs(why.mean - ranking.means[3]) < 1e-9 and 1 <= len(why.marks) <= 5
    assert why.nearest_liked and [distance for _, distance in why.nearest_liked] == sorted(
        distance for _, distance in why.nearest_liked
    )


def test_vectors_have_feedback(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    table = np.concatenate([random.normal(size=(50, 6)) + 4 * each for each in range(3)]).astype(np.float32)
    for metric, options in [("l2", {}), ("l1", {"kernel": "laplacian"})]:
        session = bw.Vectors(table, metric=metric).feedback(query=table[60] + np.float32(0.1), batch=8, **options)
        shown = session.round()
        assert sum(50 <= id < 100 for id in shown.ids.tolist()) >= 6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_sessions_leave_nothing_behind() -> None:
    vectors = bw.Vectors(np.random.default_rng(1).normal(size=(60, 4)).astype(np.float32))

    def some(count: int) -> None:
        for seed in range(count):
            session = vectors.feedback(batch=4, seed=seed % 7)
            session.mark(like=session.round().ids[:1])

    def resident_bytes() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    some(1000)
    before = resident_bytes()
    some(10_000)
    assert resident_bytes() - before < 16 << 20
