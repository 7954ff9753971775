"""Texts as Go prints them."""

import pytest

from kubeskew.apimachinery.field import invalid
from kubeskew.apimachinery.go_formats import quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 👑 <&>", '"plain é 👑 <&>"'),
        ('say "a\\b"', '"say \\"a\\\\b\\""'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x1b\x7f", '"\\x00\\x1b\\x7f"'),
        ("\x80\u200b\u00a0\U000e0001", '"\\u0080\\u200b\\u00a0\\U000e0001"'),
        ("\ud800", '"\\ufffd"'),
    ],
)
def test_quoted(text, shown):
    """Characters that cannot be printed are escaped as strconv.Quote does it, also in field errors."""
    assert quoted(text) == shown
    assert invalid("a", text, "no").body == f"Invalid value: {shown}: no"
