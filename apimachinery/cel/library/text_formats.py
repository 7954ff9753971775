"""Formats of texts that schemas and expressions share.

Source: kube-openapi pkg/validation/strfmt, 1.36.
"""

import re
from datetime import date

from kubeskew.apimachinery.cel.library.regular import regular_expression

_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


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
    """Returns whether the text is a date and time with `t` between them.

    As upstream, whatever follows a second `t` is ignored.
    """
    parts = text.lower().split("t")
    if len(parts) < 2 or not is_date(parts[0]):
        return False
    found = _CLOCK.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"
