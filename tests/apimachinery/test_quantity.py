"""Quantities against the recorded answers of upstream, and their laws."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import DATA

from kubeskew.apimachinery.quantity import Quantity, QuantityError

CASES = [json.loads(line) for line in (DATA / "quantity.jsonl").read_text().splitlines()]


def of_kind(kind):
    return [pytest.param(case, id=f"{number}") for number, case in enumerate(CASES) if case["case"] == kind]


@pytest.mark.parametrize("case", of_kind("parse"))
def test_parse(case):
    """Parsing gives upstream's number, format, canonical text and rounded values, or its error."""
    if not case["ok"]:
        with pytest.raises(QuantityError) as raised:
            Quantity.parse(case["input"])
        assert str(raised.value) == case["error"]
        return
    quantity = Quantity.parse(case["input"])
    assert quantity.canonical() == case["canonical"]
    assert quantity.format == case["format"]
    assert quantity.value() == case["value"]
    assert quantity.milli_value() == case["milliValue"]
    assert quantity.as_int64() == case["asInt64"]
    assert quantity.decimal() == Decimal(case["dec"])
    assert (quantity.sign(), quantity.is_zero()) == (case["sign"], case["isZero"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("264474473759735292e03", 6220056727801569376),
        ("954466871363909333e+3", -4763820468987351032),
        ("105070249364200768G", -6802919255763025920),
        ("105070249364200768T", 0),
    ],
)
def test_overflow(text, value):
    """A value beyond 64 bits wraps where upstream multiplies once, and is 0 where it goes step by step."""
    assert Quantity.parse(text).value() == value


@pytest.mark.parametrize("case", of_kind("json"))
def test_json(case):
    """A JSON value is read as upstream reads it."""
    value = json.loads(case["json"])
    if not case["ok"]:
        with pytest.raises(QuantityError) as raised:
            Quantity.of(value)
        assert str(raised.value) == case["error"]
        return
    text = Quantity.of(value).canonical()
    # a number has lost its own text by the time it is a Python value
    expected = json.loads(case["canonical"])
    assert text == expected if isinstance(value, str) else Quantity.parse(text) == Quantity.parse(expected)


@pytest.mark.parametrize("case", of_kind("pair"))
def test_pair(case):
    """Comparison, sum and difference are upstream's."""
    left, right = Quantity.parse(case["a"]), Quantity.parse(case["b"])
    assert left.compare(right) == case["cmp"]
    assert (left == right) is case["equal"]
    assert (left + right).canonical() == case["add"]
    assert (left - right).canonical() == case["sub"]


suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "e3", "e-6", "E2"]
)
# Below a thousand exa: beyond, upstream's canonical form loses the suffix.
quantities = st.builds("{}{}{}".format, st.sampled_from(["", "-", "+"]), st.integers(0, 99_999), suffixes)


@given(quantities)
def test_round_trip(text):
    """The canonical form says the same number and is its own canonical form."""
    quantity = Quantity.parse(text)
    again = Quantity.parse(quantity.canonical())
    assert again == quantity
    assert hash(again) == hash(quantity)
    assert Quantity.parse(again.canonical()).canonical() == again.canonical()


@given(quantities, quantities)
def test_arithmetic(left, right):
    """Sum and difference undo each other, and order agrees with exact decimals."""
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert (a + b) - b == a
    assert a + b == b + a
    assert (a < b) is (a.decimal() < b.decimal())


@pytest.mark.parametrize("text", ["1e2147483647", "-1e2147483646", "1e-2147483648"])
def test_absurd_exponents_are_cheap(text):
    """An exponent without bounds costs no time and no memory."""
    quantity = Quantity.parse(text)
    quantity.value()
    assert (quantity + Quantity.parse("1")).compare(quantity) in (0, 1)
    assert quantity.compare(Quantity.parse("5")) in (-1, 1)


def test_beyond_the_last_suffix():
    """A thousand exa has no suffix; upstream writes it without, and so do we."""
    assert Quantity.parse("1000E").canonical() == "1"
    assert Quantity.parse("1000E").compare(Quantity.parse("1E")) == 1


@pytest.mark.parametrize("text", ["e-20", "-e-20"])
def test_number_missing(text):
    """Without a digit there is no number."""
    with pytest.raises(QuantityError, match="numeric part"):
        Quantity.parse(text)
