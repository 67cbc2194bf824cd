"""The exceptions of the package. Each message says what is wrong and what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a pipeline, with its place; lines and columns count from 1."""

    severity: str
    """``error`` or ``warning``."""
    code: str
    """A stable word, such as ``unknown-operator``."""
    message: str
    help: str | None
    """The remedy, if one is known."""
    file: str
    """The file, or ``<text>``."""
    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None

    def __str__(self) -> str:
        place = "" if self.line is None else f"{self.line}:{self.column}:"
        return f"{self.file}:{place} {self.severity}: {self.message}"


def faults_of(text: str) -> list[Fault]:
    """The faults in the JSON of the native module."""
    found: list[dict[str, Any]] = json.loads(text)["diagnostics"]
    names = Fault.__slots__
    return [Fault(**{name: fault[name] for name in names}) for fault in found]


class Error(Exception):
    """Any error of boxwork."""


class StoreError(Error):
    """A store that cannot be opened, read or changed."""


class PipelineError(Error):
    """A pipeline that has faults, or that failed while it ran."""

    faults: list[Fault]
    """What a check found; empty if the pipeline failed while it ran."""

    def __init__(self, message: str, faults: str | None = None) -> None:
        super().__init__(message)
        self.faults = [] if faults is None else faults_of(faults)


class InputError(Error, ValueError):
    """A call with input that cannot be used."""
