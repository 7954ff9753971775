"""Compiles regular expressions with RE2, as Go reads them, with Go's error texts."""

import importlib
from typing import Any

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.memoizing import remembered

_GO = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


@remembered(4096)
def regular_expression(pattern: str) -> Any:
    """Returns `pattern` compiled; raises ValueError with Go's text."""
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        raise ValueError(_go_text(error.args[0])) from None


def _go_text(raw: Any) -> str:
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    reason, _, part = text.partition(": ")
    return f"error parsing regexp: {_GO.get(reason, reason)}" + (f": `{part}`" if part else "")


def compiled(pattern: str) -> Any:
    """Returns `pattern` compiled; raises EvaluationError."""
    try:
        return regular_expression(pattern)
    except ValueError as error:
        raise EvaluationError(str(error)) from None
