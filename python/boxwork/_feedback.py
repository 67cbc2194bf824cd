"""Search by feedback: rounds of objects, judgements, and the next round.

A round is a function of the store, the parameters, the marks and the objects shown so far; so a session is its log, and
equal logs give equal rounds on every machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._boxwork import Rows
from ._errors import InputError, StoreError
from ._inputs import Id, Path, Query, native_query, one_query, path_of
from ._store import Store

VERSION = 1
"""Of the files that `Session.save` writes."""
MARKS_MAX = 1000
"""The most marks of a session."""
ROUNDS_MAX = 1000
"""The most rounds of a session."""
REASONS = 5
"""The most marks that `Session.why` names."""
NO_MARK = 2**64 - 1
"""The id that stands where no mark has a share."""


@dataclass(frozen=True, eq=False, slots=True)
class Round:
    """The objects that a session shows at once, the most promising first."""

    number: int
    """From 1."""
    ids: npt.NDArray[np.uint64]
    names: list[str]
    means: npt.NDArray[np.float64]
    """The expected relevance of each."""
    deviations: npt.NDArray[np.float64]
    """How uncertain that is."""
    exhausted: bool
    """Whether fewer objects were left than a round has."""
    rows: Rows
    """All columns of the round, for Arrow: also the marks that raise and lower each mean most, and their shares."""

    def __len__(self) -> int:
        return len(self.names)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, eq=False, slots=True)
class Ranking:
    """All objects by their expected relevance, the greatest first."""

    ids: npt.NDArray[np.uint64]
    names: list[str]
    means: npt.NDArray[np.float64]
    deviations: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Share:
    """What one mark adds to the mean of an object."""

    name: str
    relevance: float
    share: float


@dataclass(frozen=True, slots=True)
class Why:
    """Why an object has its mean."""

    mean: float
    deviation: float
    marks: list[Share]
    """The marks with the largest shares, by size."""
    nearest_liked: list[tuple[str, float]]
    """The liked objects nearest to it, and their distances."""


@dataclass(slots=True)
class _Step:
    """A round, and the judgements that were made when it was on the screen."""

    shown: list[int]
    explore: float
    marks: dict[int, float | None] = field(default_factory=dict)
    made: Round | None = None


class Session:
    """A search by feedback over a store.

    `round` gives the objects to judge, `mark` takes the judgements and gives the next round. `undo` and `redo` move
    between rounds. Made by :meth:`boxwork.Store.feedback`.
    """

    def __init__(
        self,
        store: Store,
        query: Query | Sequence[Query] | None,
        settings: dict[str, Any],
        space: dict[str, Any],
    ) -> None:
        self._store, self._settings, self._space = store, settings, space
        self._query = _queries(store, query)
        # Queries that are objects of the store are marks like any other; others are given with their objects, which are
        # extracted once.
        found = {text: store._native.find(text) for text in self._query if isinstance(text, str)}
        self._liked: list[int] = [id for id in found.values() if id is not None]
        others = [each for each in self._query if not isinstance(each, str) or found[each] is None]
        self._given = store._native.query_rows(others, [1.0] * len(others)) if others else None
        # The rounds so far and, after `undo`, those that `redo` brings back.
        self._steps: list[_Step] = []
        self._at = 0
        self._events: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"Session(round {self._at or 1}, {len(self.marks)} marks)"

    @property
    def store(self) -> Store:
        """The store that is searched."""
        return self._store

    @property
    def marks(self) -> dict[int, float]:
        """The judgements that count now: relevance by id, in the order of the first judgement."""
        return self._marks_before(self._at)

    @property
    def shown(self) -> list[int]:
        """The ids of the objects shown so far, in their order."""
        return [id for step in self._steps[: self._at] for id in step.shown]

    @property
    def can_undo(self) -> bool:
        """Whether there is a round before this one."""
        return self._at > 1

    @property
    def can_redo(self) -> bool:
        """Whether a round was undone, and no mark was made since."""
        return self._at < len(self._steps)

    @property
    def explore(self) -> float:
        """How much what is uncertain counts: 0 shows what is probably relevant, 2 what is least known."""
        return float(self._settings["explore"])

    @explore.setter
    def explore(self, weight: float) -> None:
        self._settings["explore"] = float(weight)
        self._events.append({"op": "explore", "explore": float(weight)})

    def round(self) -> Round:
        """The current round; the first call makes the first one."""
        if self._at == 0:
            self._next({})
        step = self._steps[self._at - 1]
        if step.made is None:
            # Read from a file: the figures are computed anew, and prove that the objects are those that were shown.
            before = [id for earlier in self._steps[: self._at - 1] for id in earlier.shown]
            made = self._compute(self._at, self.marks, before, step.explore)
            if made.ids.tolist() != step.shown:
                raise StoreError("the store gives another round than it gave: it has changed since")
            step.made = made
        return step.made

    def mark(
        self,
        like: Iterable[Id] = (),
        dislike: Iterable[Id] = (),
        scores: Mapping[int, float | None] | None = None,
    ) -> Round:
        """Judges objects, and returns the next round.

        `scores` are relevances from 0 to 1 by id; None takes a judgement back. Objects that were shown and not judged count
        as probably not relevant, unless the session was made with ``unmarked="ignore"``. An object that was never shown may
        be judged too.
        """
        marks = self._judged(like, dislike, scores or {})
        self.round()
        if self._at >= ROUNDS_MAX or len(self.marks | marks) > MARKS_MAX:
            raise InputError(f"a session has at most {ROUNDS_MAX} rounds and {MARKS_MAX} marks")
        self._next(marks)
        return self.round()

    def undo(self) -> Round:
        """Goes back to the round before, and takes its judgements back."""
        if not self.can_undo:
            raise InputError("this is the first round: there is nothing to undo")
        self._at -= 1
        self._move("undo")
        return self.round()

    def redo(self) -> Round:
        """Does again what was undone last."""
        if not self.can_redo:
            raise InputError("nothing was undone since the last mark")
        self._at += 1
        self._move("redo")
        return self.round()

    def _move(self, op: str) -> None:
        self._events.append({"op": op})

    def ranking(self, count: int = 100) -> Ranking:
        """The objects of the greatest expected relevance, judged ones too."""
        each = self._each(self.marks, self.shown, "class") | {"limit": count}
        rows = self._ask("feedback_ranking", each)
        ids = np.asarray(rows.column("id"))
        means, deviations = np.asarray(rows.column("mean")), np.asarray(rows.column("deviation"))
        return Ranking(ids, self._names(ids), means, deviations)

    def why(self, id: Id) -> Why:
        """Why an object has its mean: the marks with the largest shares, and the liked objects nearest to it."""
        each = self._each(self.marks, self.shown) | {"object": f"#{int(id)}"}
        rows = self._ask("feedback_why", each)
        if len(rows) == 0:
            raise InputError(f"`{self._store.path}` has no object {id}")
        numbers = {name: np.asarray(rows.column(name)) for name in ("share", "distance", "relevance", "noise", "mark")}
        names: list[Any] = list(rows.column("name"))  # type: ignore[arg-type]
        is_mark = numbers["mark"] != NO_MARK
        by_share = [at for at in np.argsort(-np.abs(numbers["share"]), kind="stable") if is_mark[at]]
        marks = [
            Share(names[at], float(numbers["relevance"][at]), float(numbers["share"][at])) for at in by_share[:REASONS]
        ]
        by_distance = np.argsort(numbers["distance"], kind="stable")
        liked = [at for at in by_distance if is_mark[at] and numbers["relevance"][at] >= 0.5]
        nearest = [(names[at], float(numbers["distance"][at])) for at in liked[:REASONS]]
        mean, deviation = (float(np.asarray(rows.column(name))[0]) for name in ("mean", "deviation"))
        return Why(mean, deviation, marks, nearest)

    def save(self, path: Path) -> None:
        """Writes the session's log, a line of JSON for each event; objects are named, so that ids may change."""
        if any(not isinstance(query, str) for query in self._query):
            raise InputError("a session that began with an array cannot be saved: begin it with a path or a name")
        head = {
            "boxwork_session": VERSION,
            "store": self._store.fingerprint,
            "kind": self._store.kind,
            "parameters": self._settings,
            "space": self._space,
            "query": self._query,
        }
        target = path_of(path)
        temporary = f"{target}.{os.getpid()}.part"
        with open(temporary, "w", encoding="utf-8") as file:
            for line in [head, *self._events]:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)

    @classmethod
    def load(cls, path: Path, store: Store) -> Session:
        """Reads what `save` wrote, over the same store or a changed one that still has the objects."""
        target = path_of(path)
        try:
            with open(target, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file if line.strip()]
        except (OSError, ValueError) as error:
            raise InputError(f"`{target}` is no session: {error}") from error
        head = lines[0] if lines and isinstance(lines[0], dict) else {}
        if head.get("boxwork_session") != VERSION:
            raise InputError(f"`{target}` is no session of version {VERSION}: its first line does not say so")
        if head["kind"] != store.kind:
            raise InputError(f"`{target}` is a session over {head['kind']}, and the store holds {store.kind}")
        session = cls(store, head["query"] or None, dict(head["parameters"]), dict(head["space"]))
        for number, event in enumerate(lines[1:], start=2):
            try:
                session._replay(event)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise InputError(f"`{target}`, line {number}: {error}") from error
        return session

    def _replay(self, event: dict[str, Any]) -> None:
        """Does what a line of a log says, without computing."""
        match event["op"]:
            case "round":
                marks = {self._store.id(name): relevance for name, relevance in event["marks"].items()}
                shown = [self._store.id(name) for name in event["shown"]]
                self._append(marks, _Step(shown, float(event["explore"])))
            case "undo":
                self._at -= 1
            case "redo":
                self._at += 1
            case "explore":
                self._settings["explore"] = float(event["explore"])
            case other:
                raise ValueError(f"there is no event `{other}`")
        if not 0 < self._at <= len(self._steps) and event["op"] != "explore":
            raise ValueError(f"there is nothing to {event['op']}")
        self._events.append(event)

    def _judged(
        self, like: Iterable[Id], dislike: Iterable[Id], scores: Mapping[int, float | None]
    ) -> dict[int, float | None]:
        pairs: list[tuple[int, float | None]] = [(int(id), 1.0) for id in like]
        pairs += [(int(id), 0.0) for id in dislike]
        pairs += [(int(id), None if score is None else float(score)) for id, score in scores.items()]
        marks: dict[int, float | None] = {}
        for id, relevance in pairs:
            if id in marks:
                raise InputError(f"object {id} is judged twice")
            if relevance is not None and not 0 <= relevance <= 1:
                raise InputError(f"the relevance of object {id} is {relevance}: it is from 0 to 1")
            marks[id] = relevance
        # Names prove that the ids are there.
        if marks:
            self._store._native.names_of(list(marks))
        return marks

    def _marks_before(self, number: int) -> dict[int, float]:
        """The judgements from which the round of this number is made."""
        found: dict[int, float | None] = {}
        for step in self._steps[: max(number - 1, 0)]:
            found.update(step.marks)
        return {id: relevance for id, relevance in found.items() if relevance is not None}

    def _next(self, marks: dict[int, float | None]) -> None:
        """Makes the round after the current one, with these judgements of the current one."""
        judged: dict[int, float | None] = {**self.marks, **marks}
        known = {id: relevance for id, relevance in judged.items() if relevance is not None}
        made = self._compute(self._at + 1, known, self.shown, self.explore)
        names = self._names(np.array(list(marks), dtype=np.uint64))
        self._append(marks, _Step(made.ids.tolist(), self.explore, made=made))
        of_names = dict(zip(names, marks.values(), strict=True))
        event = {"op": "round", "explore": self.explore, "marks": of_names, "shown": made.names}
        self._events.append(event)

    def _append(self, marks: dict[int, float | None], step: _Step) -> None:
        """Puts a step after the current one. What was undone is dropped: the log keeps it."""
        del self._steps[self._at :]
        if self._steps:
            self._steps[-1].marks = marks
        self._steps.append(step)
        self._at += 1

    def _each(self, marks: Mapping[int, float], seen: Sequence[int], *names: str) -> dict[str, Any]:
        """The values of a request: the marks, what was shown, and these settings as far as they are given."""
        settings = {name: self._settings[name] for name in ("unmarked", *names)}
        each: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        judged = dict.fromkeys(self._liked, 1.0) | dict(marks)
        each["marks"] = [f"#{id}={relevance!r}" for id, relevance in judged.items()]
        each["seen"] = [f"#{id}" for id in [*self._liked, *seen]]
        return each

    def _ask(self, pipeline: str, each: dict[str, Any]) -> Rows:
        # A ranking chooses no round, and reasons are exact: they need no bounds.
        left_out: dict[str, set[str]] = {"feedback": set(), "feedback_ranking": {"rerank"}}
        without = left_out.get(pipeline, {"rerank", "sketch", "mode", "device"})
        chosen = {name: value for name, value in self._space.items() if name not in without}
        space = self._store._distance(None, None, chosen)
        inputs = {} if self._given is None else {"marks": self._given}
        return self._store._native.ask(pipeline, "results", space, each, inputs)

    def _compute(self, number: int, marks: Mapping[int, float], seen: Sequence[int], explore: float) -> Round:
        """A round: a function of the marks and of what was shown."""
        batch = int(self._settings["batch"])
        each = self._each(marks, seen, "seed", "class") | {"batch": batch, "explore": explore}
        rows = self._ask("feedback", each)
        ids = np.asarray(rows.column("id"))
        means, deviations = np.asarray(rows.column("mean")), np.asarray(rows.column("deviation"))
        return Round(number, ids, self._names(ids), means, deviations, len(ids) < batch, rows)

    def _names(self, ids: npt.NDArray[np.uint64]) -> list[str]:
        return self._store._native.names_of(ids.tolist())


def _queries(store: Store, query: Query | Sequence[Query] | None) -> list[Any]:
    if query is None:
        return []
    single = one_query(query, store._query_dimensions())
    queries: list[Any] = single if single is not None else list(query)  # type: ignore[arg-type]
    named = [store.name(each) if isinstance(each, (int, np.integer)) else each for each in queries]
    return [native_query(each, store.kind == "vectors") for each in named]
