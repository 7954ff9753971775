"""Patterns and formats of texts, which schemas and expressions share.

Patterns are regular expressions, compiled with RE2 as Go reads them, with Go's error texts.

Source: kube-openapi pkg/validation/strfmt, 1.36.
"""

import importlib
import re
from datetime import date
from typing import Any

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.memo import remembered

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
_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


@remembered(4096)
def regular_expression(pattern: str) -> Any:
    """Raises ValueError with Go's text; patterns are compiled once."""
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
    return f"error parsing regexp: {_GO.get(reason, reason)}: `{part}`"


def compiled(pattern: str) -> Any:
    """Raises EvaluationError where `regular_expression` raises ValueError."""
    try:
        return regular_expression(pattern)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def is_uuid(text: str) -> bool:
    return regular_expression(_UUID).fullmatch(text) is not None


def is_base64(text: str) -> bool:
    """Checks with RE2, because texts may be long; the empty text is not base64."""
    return regular_expression(_BASE64).fullmatch(text) is not None


def is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year, month, day = map(int, text.split("-"))
    try:
        date(year or 4, month, day)  # Go knows the year 0, a leap year
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Date and time have a `t` between them; as upstream, all that follows a second `t` is ignored."""
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    found = _CLOCK.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"
