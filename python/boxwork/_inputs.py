"""What callers give, in the forms that the native module takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from . import _boxwork
from ._errors import InputError


@runtime_checkable
class ArrowStream(Protocol):
    """Any table of any library that speaks Arrow's PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class ArrowArray(Protocol):
    """Any record batch of any library that speaks Arrow's PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any: ...


NUMBERS = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(np.uint8): "u8", np.dtype(np.int8): "i8"}
"""The types of numbers that stores of vectors keep, by numpy's."""

Path: TypeAlias = str | os.PathLike[str]
Id: TypeAlias = int | np.integer[Any]
Query: TypeAlias = str | os.PathLike[str] | int | np.integer[Any] | npt.NDArray[Any]
"""A name or a path, an id, or an array: a picture or a vector."""


def path_of(path: Path) -> str:
    """A path as text."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InputError(f"a path is a text, not {type(path).__name__}")
    return text


def paths_of(paths: Path | Iterable[Path]) -> list[str]:
    """One path or several."""
    if isinstance(paths, (str, os.PathLike)):
        return [path_of(paths)]
    return [path_of(path) for path in paths]


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None, with paths as texts."""
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: Any) -> Any:
    """A value whose paths are texts."""
    if isinstance(value, os.PathLike):
        return path_of(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def one_query(query: Any, dimensions: int) -> list[Any] | None:
    """The query as a list of one; None if it is several. A single array has this many dimensions."""
    if isinstance(query, (str, os.PathLike, int, np.integer)):
        return [query]
    if isinstance(query, np.ndarray) and query.ndim == dimensions:
        return [query]
    return None


def native_query(query: Any, of_vectors: bool) -> Any:
    """A query for the native module: arrays lie one number after the other."""
    if isinstance(query, os.PathLike):
        return path_of(query)
    if isinstance(query, str):
        return query
    if isinstance(query, bool):
        raise InputError("a query is a name, a path, an id or an array, not a truth")
    if isinstance(query, (int, np.integer)):
        return _id(int(query))
    array = np.asarray(query)
    if of_vectors:
        if array.ndim != 1 or array.dtype.kind not in "fiu":
            raise InputError(f"a query is a vector of numbers, not {array.dtype} of the shape {array.shape}")
        return np.ascontiguousarray(array, dtype=np.float32)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise InputError(
            f"a picture is an array of uint8 of the shape (height, width, 3), not {array.dtype} of the shape {array.shape}"
        )
    return np.ascontiguousarray(array)


def _id(number: int) -> int:
    if not 0 <= number < 2**64:
        raise InputError(f"an id is from 0 to 2^64 - 1, not {number}")
    return number


def ids_of(ids: Iterable[Id]) -> list[int]:
    """Ids as whole numbers."""
    return [_id(int(number)) for number in ids]


def table_of(table: npt.ArrayLike | ArrowStream | ArrowArray, column: str | None = None) -> npt.NDArray[Any]:
    """The rows of a table of numbers, or of a column of lists of Arrow, as a C-contiguous array.

    float32, float16, uint8 and int8 keep their type; other numbers become float32. It is a copy only if it has to be.
    """
    if isinstance(table, (ArrowStream, ArrowArray)):
        array = np.asarray(_boxwork.table_of_arrow(table, column))
    elif column is not None:
        raise InputError("a column is named of rows of Arrow, and this is a table of numbers")
    else:
        array = np.asarray(table)
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise InputError(f"vectors are the rows of a table of numbers, not {array.dtype} of the shape {array.shape}")
    return np.ascontiguousarray(array, dtype=array.dtype if array.dtype in NUMBERS else np.float32)


def as_type(numbers: npt.NDArray[Any], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The same numbers as another type; an error if that would change one."""
    with np.errstate(over="ignore", invalid="ignore"):
        converted = np.ascontiguousarray(numbers, dtype=kind)
    if numbers.dtype != kind and not np.array_equal(converted.astype(np.float64), numbers.astype(np.float64)):
        raise InputError(f"these vectors are {numbers.dtype}, and the others {kind}, which does not hold all of their numbers")
    return converted


def rows_of(table: npt.ArrayLike, *, or_row: bool = False) -> npt.NDArray[np.float32]:
    """The rows of a table of numbers as a C-contiguous array of float32; a copy only if it is none.

    With `or_row` a single row is a table of one.
    """
    array = np.asarray(table)
    if or_row and array.ndim == 1:
        array = array[None, :]
    if array.dtype.kind not in "fiu" or array.ndim != 2:
        raise InputError(f"vectors are the rows of a table of numbers, not {array.dtype} of the shape {array.shape}")
    return np.ascontiguousarray(array, dtype=np.float32)
