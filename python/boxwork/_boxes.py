"""Boxes written in Python: classes and functions registered as operators, for pipelines that this process runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from . import _boxwork
from ._boxwork import Rows
from ._errors import InputError

Columns: TypeAlias = str | Mapping[str, str]
"""The columns of a port: a word that boxwork knows, such as ``distances``, or the types by name."""

F = TypeVar("F", bound=Callable[..., Any])

_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def box(
    name: str,
    *,
    input: Columns | None,
    output: Columns | None = None,
    sides: Mapping[str, Columns] | None = None,
    about: str | None = None,
) -> Callable[[F], F]:
    """Registers a class or a function as the operator `name`; pipelines of this process may then say ``kind: name``.

    A function is called with each batch of the input. A class is made once a box and request, with the box's settings as
    keyword arguments (and the rows of its side inputs, by name). Its method `process(rows)` is called with each batch,
    and `finish()`, if it has one, at the end. Both return rows, several of them, or None; a generator is taken from as
    long as there is room. Rows are a `Rows`, a table of any Arrow library, or a mapping of columns to arrays.

    The parameters are those of the function or of `__init__`, with their annotations (bool, int, float or str) and
    defaults. Without an `input` the box is a source: only `finish` is called. The ports are called `in` and `out`.

    An exception ends the request: its traceback is the message of the PipelineError.
    """

    def registered(made: F) -> F:
        sided = dict(sides or {})
        is_class = inspect.isclass(made)
        signature = inspect.signature(made, eval_str=True)
        names = list(signature.parameters)
        taken = [] if is_class else names[:1]
        if not is_class and not taken:
            raise InputError(f"the function of the box `{name}` takes no rows")
        settings = [
            _parameter(name, parameter)
            for parameter in signature.parameters.values()
            if parameter.name not in taken and parameter.name not in sided
        ]
        ports: list[tuple[str, str, Any]] = [] if input is None else [("in", "stream", _columns(input))]
        ports += [(port, "side", _columns(columns)) for port, columns in sided.items()]
        out = None if output is None else ("out", _columns(output))
        types = output if isinstance(output, Mapping) else None

        def make(arguments: dict[str, Any], side_rows: dict[str, Rows]) -> Adapter:
            if is_class:
                return Adapter(made(**arguments, **side_rows), types)
            return Adapter(_Function(made, {**arguments, **side_rows}), types)

        doc = about or (inspect.getdoc(made) or "A box written in Python.").partition("\n")[0]
        _boxwork.register(name, doc, make, ports, out, settings)
        return made

    return registered


def _columns(columns: Columns) -> str | list[tuple[str, str]]:
    return columns if isinstance(columns, str) else list(columns.items())


def _parameter(box_name: str, parameter: inspect.Parameter) -> tuple[str, str, Any]:
    default = None if parameter.default is inspect.Parameter.empty else parameter.default
    annotation = type(default) if parameter.annotation is inspect.Parameter.empty else parameter.annotation
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or annotation not in _TYPES:
        raise InputError(
            f"the parameter `{parameter.name}` of the box `{box_name}` needs an annotation: bool, int, float or str"
        )
    return parameter.name, _TYPES[annotation], default


class _Function:
    """A function as an object with the method `process`."""

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self._function, self._arguments = function, arguments

    def process(self, rows: Rows) -> Any:
        return self._function(rows, **self._arguments)


class Adapter:
    """What the native module calls: it makes an iterator of rows of all that the user's methods may return."""

    def __init__(self, user: Any, types: Mapping[str, str] | None) -> None:
        self._user, self._types = user, types

    def process(self, rows: Rows) -> Iterator[Any] | None:
        """Calls the user's `process`."""
        return self._results(self._user.process(rows))

    def finish(self) -> Iterator[Any] | None:
        """Calls the user's `finish`, if there is one."""
        finish = getattr(self._user, "finish", None)
        return None if finish is None else self._results(finish())

    def _results(self, result: Any) -> Iterator[Any] | None:
        if result is None:
            return None
        if _is_rows(result):
            return iter([self._rows(result)])
        if not isinstance(result, Iterable):
            raise InputError(f"a box returns rows, several of them, or None, not {type(result).__name__}")
        return (self._rows(each) for each in result if each is not None)

    def _rows(self, result: Any) -> Any:
        if not isinstance(result, Mapping):
            return result
        return Rows.from_columns({name: _column(name, column, self._types) for name, column in result.items()})


def _is_rows(result: Any) -> bool:
    return isinstance(result, Mapping) or any(
        hasattr(result, name) for name in ("__arrow_c_stream__", "__arrow_c_array__")
    )


def _column(name: str, column: Any, types: Mapping[str, str] | None) -> Any:
    kind = None if types is None else types.get(name)
    is_text = isinstance(column, Sequence) and len(column) > 0 and all(isinstance(each, str) for each in column)
    if kind == "str" or kind is None and is_text:
        return [str(each) for each in column]
    if kind == "bool":
        return [bool(each) for each in column]
    return np.ascontiguousarray(column, dtype=kind)
