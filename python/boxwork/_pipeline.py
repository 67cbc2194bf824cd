"""Pipelines: YAML texts, checked and run, with Arrow in and out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _boxwork
from ._boxwork import Rows
from ._errors import Fault, faults_of
from ._inputs import ArrowArray, ArrowStream, Path, path_of, plain
from ._store import Store


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a pipeline."""

    name: str
    type: str
    """The type and range, in words."""
    is_required: bool
    about: str


class Pipeline:
    """A pipeline: the path of a YAML file, a YAML text (of more than one line), or the name of a shipped one.

    Raises PipelineError, with its `faults`, if the text has any that do not depend on values.
    """

    def __init__(self, source: Path) -> None:
        text, is_text = _source(source)
        self._native = _boxwork.Pipeline(text, is_text)

    @property
    def about(self) -> str:
        """The description by its author."""
        return self._native.about

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters."""
        return [Parameter(*parameter) for parameter in self._native.parameters]

    def run(
        self,
        inputs: Mapping[str, ArrowStream | ArrowArray] | None = None,
        /,
        *,
        deadline_s_: float | None = None,
        memory_bytes_: int | None = None,
        **parameters: Any,
    ) -> dict[str, Rows]:
        """Runs it to its end, and returns the rows of its sinks by the names of their boxes.

        `inputs` are rows for boxes such as `read_arrow`, by the names of the boxes. A parameter for the path of a store
        may be an open Store. A sink that is given a file to write (`out`) writes it, and is not in the result. Raises
        PipelineError if a box fails, and InputError if a value does not fit.
        """
        stores = {name: value._native for name, value in parameters.items() if isinstance(value, Store)}
        values = {name: plain(value) for name, value in parameters.items() if not isinstance(value, Store)}
        return self._native.run(values, dict(inputs or {}), stores, deadline_s_, memory_bytes_)


def check(source: Path) -> list[Fault]:
    """All faults of a pipeline, in the order of its text; none is an empty list. Opens no file but the pipeline's."""
    return faults_of(_boxwork.check(*_source(source)))


def shipped() -> dict[str, str]:
    """The pipelines that boxwork ships: their texts by their names."""
    return _boxwork.shipped_texts()


def _source(source: Path) -> tuple[str, bool]:
    if isinstance(source, os.PathLike):
        return path_of(source), False
    return source, "\n" in source
