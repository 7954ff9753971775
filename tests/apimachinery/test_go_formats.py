"""Numbers and texts as Go writes them."""

import math

import pytest

from kubeskew.apimachinery.field import invalid
from kubeskew.apimachinery.go_formats import float_text, quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (3.0, "3"),
        (0.1, "0.1"),
        (-12345.678, "-12345.678"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e-7, "1e-07"),  # 9.9999999999999995e-08 in seventeen digits
        (9.999999999999999e-06, "9.999999999999999e-06"),
        (5e-324, "5e-324"),
        (math.inf, "+Inf"),
        (math.nan, "NaN"),
    ],
)
def test_floats(value, text):
    """A float has the fewest digits that mean it, with an exponent below 1e-4 and from 1e+06 on."""
    assert float_text(value) == text


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
