"""Boxwork: exact similarity search, search by feedback, and dataflow pipelines.

    import boxwork as bw
    store = bw.extract("photos/", "photos.signatures.arrow")
    for id, name, distance in store.search("cat.jpg", k=10):
        ...
"""

from ._boxes import box
from ._boxwork import Rows, __version__, configure, workers
from ._errors import Error, Fault, InputError, PipelineError, StoreError
from ._feedback import Round, Session, Why
from ._pipeline import Parameter, Pipeline, check, shipped
from ._store import (
    NO_ID,
    STRATEGIES,
    ClassQuality,
    Evaluation,
    Hits,
    Nearest,
    SkippedWarning,
    Store,
    Vectors,
    Within,
    extract,
)

__all__ = [
    "NO_ID",
    "STRATEGIES",
    "ClassQuality",
    "Error",
    "Evaluation",
    "Fault",
    "Hits",
    "InputError",
    "Nearest",
    "Parameter",
    "Pipeline",
    "PipelineError",
    "Round",
    "Rows",
    "Session",
    "SkippedWarning",
    "Store",
    "StoreError",
    "Vectors",
    "Why",
    "Within",
    "__version__",
    "box",
    "check",
    "configure",
    "extract",
    "shipped",
    "workers",
]
