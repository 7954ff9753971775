"""Quantities: exact numbers with a unit, as resource amounts are written (`100m`, `1.5Gi`, `1e3`).

A quantity keeps the format it was written in. As upstream it has two representations: a 64-bit integer with a
decimal exponent where that is enough, else a big decimal; they differ only where the answer of `value` or
`milli_value` overflows 64 bits (recorded answers of 1.36, kept as they are).

Source: k8s.io/apimachinery/pkg/api/resource (with math.go and scale_int.go), 1.36.
"""

import re
from decimal import Decimal
from enum import StrEnum
from functools import total_ordering
from typing import Any

from kubeskew.apimachinery.memo import remembered

INT64_MAX = (1 << 63) - 1
# Powers of ten that upstream multiplies by at once; it multiplies by others step by step.
_MULTIPLIED_ONCE = frozenset({1, 2, 3, 6, 9})
FAR_APART = 10_000  # decimal places beyond which the smaller operand of a sum is dropped
WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX = "unable to parse quantity's suffix"
WRONG_NUMBER = "unable to parse numeric part of quantity"

_TEXT = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*+)(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_DECIMAL = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}

_NANO, _MILLI = -9, -3
_INT64_DIGITS = 18  # digits that certainly fit 64 bits


def without_factor(number: int, factor: int) -> tuple[int, int]:
    """Divides until `factor` is no divisor any more; the second number counts the divisions."""
    times = 0
    while number and number % factor == 0:
        number //= factor
        times += 1
    return number, times


def power(places: int) -> int:
    """`places` must not be negative."""
    return int(10**places)


def fits(number: int) -> bool:
    """True if 64 bits hold `number`."""
    return -INT64_MAX - 1 <= number <= INT64_MAX


def wrap(number: int, bits: int = 64) -> int:
    """Overflows as a signed machine integer does."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def times_power(number: int, places: int) -> int | None:
    """None if the product does not fit 64 bits."""
    if number == 0:
        return 0
    if places >= 19:
        return None
    grown: int = number * 10**places
    return grown if fits(grown) else None


def times_power_wrapped(number: int, places: int) -> int:
    """Omits the check for overflow as upstream does: wrapped where it multiplies once, else 0."""
    grown = times_power(number, places)
    if grown is not None:
        return grown
    return wrap(number * power(places)) if places in _MULTIPLIED_ONCE else 0


def divide_away(number: int, places: int) -> int:
    """Rounds fractions away from zero."""
    if places >= 20:
        return (number > 0) - (number < 0)
    magnitude: int = -(-abs(number) // 10**places)
    return magnitude if number > 0 else -magnitude


def wide_scaled(unscaled: int, places: int) -> int:
    """`unscaled / 10**places` as upstream's 64-bit arithmetic gives it, overflow included."""
    if places == 0:
        return wrap(unscaled)
    if places < 0:
        return 0 if places <= -64 else wrap(wrap(unscaled) * power(-places))
    if unscaled < INT64_MAX and places < 19:
        number, divisor = wrap(unscaled), power(places)
        magnitude, rest = divmod(abs(number), divisor)
        return (magnitude if number >= 0 else -magnitude) + (rest != 0)
    whole, rest = divmod(unscaled, power(min(places, FAR_APART)))
    return wrap(whole) + (rest != 0)


class QuantityError(ValueError):
    """A text that is no quantity; the message is upstream's."""


class Format(StrEnum):
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
class Quantity:
    """The number `unscaled * 10**exponent`, immutable; `wide` marks the big representation."""

    __slots__ = ("_text", "exponent", "format", "remembered", "unscaled", "wide")

    def __init__(
        self,
        unscaled: int,
        exponent: int = 0,
        fmt: Format = Format.DECIMAL_SI,
        *,
        wide: bool = False,
        text: str = "",
    ) -> None:
        self.unscaled = unscaled
        self.exponent = exponent
        self.format = fmt
        self.wide = wide
        self._text = text
        self.remembered = text  # the text that upstream's Quantity keeps; empty if it has to be written again

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Raises QuantityError."""
        return _parse(text)

    @classmethod
    def of(cls, value: Any) -> "Quantity":
        """Blanks around a JSON string are ignored, null is zero; raises QuantityError."""
        if value is None:
            return ZERO
        if isinstance(value, str):
            return _parse(value.strip())
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise QuantityError(WRONG_FORMAT)
        return _parse(repr(value))

    # --- reading ----------------------------------------------------------------------------------------

    def canonical(self) -> str:
        """The shortest exact text in the quantity's format; a text that is canonical enough stays."""
        if not self._text:
            self._text = _write(self)
        return self._text

    __str__ = canonical

    def __repr__(self) -> str:
        return f"Quantity({self.canonical()!r})"

    def value(self) -> int:
        """Rounded up to a whole number."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """In thousandths, rounded up."""
        return self.scaled_value(_MILLI)

    def scaled_value(self, scale: int) -> int:
        """In units of `10**scale`, rounded up (fractions of negative narrow numbers away from zero)."""
        if self.wide:
            return wide_scaled(self.unscaled, scale - self.exponent)
        shift = self.exponent - scale
        if shift < 0:
            return divide_away(self.unscaled, -shift)
        return times_power_wrapped(self.unscaled, shift)

    def as_int64(self) -> int | None:
        """The exact whole number if the narrow representation has one, else None."""
        if self.wide or self.exponent < 0:
            return None
        return times_power(self.unscaled, self.exponent)

    def decimal(self) -> Decimal:
        """The exact number."""
        digits = tuple(map(int, str(abs(self.unscaled))))
        return Decimal((int(self.unscaled < 0), digits, self.exponent))

    def is_zero(self) -> bool:
        return self.unscaled == 0

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.unscaled > 0) - (self.unscaled < 0)

    # --- comparing and computing ------------------------------------------------------------------------

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1; compares numbers alone, not formats."""
        if self.exponent == other.exponent or self.sign() != other.sign():
            left, right = (self.unscaled, other.unscaled)
            if self.sign() != other.sign():
                left, right = self.sign(), other.sign()
        elif abs(self.exponent - other.exponent) > FAR_APART:
            further = self.sign() * (1 if self.exponent > other.exponent else -1)
            left, right = further, 0
        else:
            left, right, _ = _aligned(self, other)
        return (left > right) - (left < right)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        return hash(self.decimal())

    def __add__(self, other: "Quantity") -> "Quantity":
        """Zero takes the other's format."""
        return _sum(self, other)

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Zero takes the other's format."""
        return _sum(self, -other)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.unscaled, self.exponent, self.format, wide=self.wide)

    def __mul__(self, factor: int) -> "Quantity":
        product = self.unscaled * factor
        return Quantity(product, self.exponent, self.format, wide=self.wide or not fits(product))


ZERO = Quantity(0, text="0")


@remembered(8192)
def _parse(text: str) -> Quantity:
    found = _TEXT.fullmatch(text) if text else None
    if found is None:
        raise QuantityError(WRONG_FORMAT)
    base, exponent, fmt = _read_suffix(found["suffix"])
    whole, fraction = found["whole"] or "0", found["fraction"] or ""
    negative = found["sign"] == "-"
    narrow = _narrow(text, whole, fraction, base, exponent, fmt, negative)
    if narrow is not None:
        return narrow
    if not (found["zeros"] or found["whole"] or fraction):
        raise QuantityError(WRONG_NUMBER)
    return _wide(int(whole + fraction), len(fraction), base, exponent, fmt, negative)


def _read_suffix(suffix: str) -> tuple[int, int, Format]:
    """Base, exponent and format of a suffix; raises QuantityError."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], Format.BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            raise QuantityError(WRONG_SUFFIX) from None
        if abs(exponent) <= INT64_MAX:
            return 10, wrap(exponent, 32), Format.DECIMAL_EXPONENT
    raise QuantityError(WRONG_SUFFIX)


def _narrow(
    text: str, whole: str, fraction: str, base: int, exponent: int, fmt: Format, negative: bool
) -> Quantity | None:
    """None where the digits may not fit 64 bits."""
    factor, scale = 1, exponent
    if base == 10:
        room = _INT64_DIGITS - len(whole) - len(fraction)
    elif fraction:
        room = -1
    else:
        factor, scale = 1 << exponent, 0
        room = 15 - len(whole) - exponent * 3 // 10 - 1
    scale -= len(fraction)
    if room < 0 or scale < _NANO:
        return None
    digits = whole + fraction
    number = int(digits)
    if base == 2:
        kept = number & 7 != 0
    else:
        kept = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    amount = number * factor * (-1 if negative else 1)
    return Quantity(amount, scale, fmt, text=text if kept else "")


def _wide(number: int, places: int, base: int, exponent: int, fmt: Format, negative: bool) -> Quantity:
    """Rounds up to nanos, and caps binary quantities at the largest 64-bit integer."""
    scale = -places
    if base == 10:
        scale += exponent
    else:
        number <<= exponent
    if number and scale < _NANO:
        number = 1 if _NANO - scale > FAR_APART else -(-number // 10 ** (_NANO - scale))
        scale = _NANO
    elif number and scale <= FAR_APART:
        number *= 10 ** (scale - _NANO)
        scale = _NANO
    if fmt is Format.BINARY_SI:
        one = 10**-_NANO
        if number > INT64_MAX * one:
            number, scale = INT64_MAX, 0
        elif 0 < number < one:
            fmt = Format.DECIMAL_SI
    return Quantity(-number if negative else number, scale, fmt, wide=True)


def _write(quantity: Quantity) -> str:
    if quantity.is_zero():
        return "0"
    if quantity.format is Format.BINARY_SI:
        whole = _whole(quantity)
        if whole is not None and not -1024 < whole < 1024:
            amount, times = without_factor(whole, 1024)
            return f"{amount}{_BINARY_SUFFIX.get(times * 10, '')}"
    amount, times = without_factor(quantity.unscaled, 10)
    exponent = quantity.exponent + times
    amount *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if quantity.format is Format.DECIMAL_EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    # Upstream has no suffix beyond the last: 1000E becomes 1.
    return f"{amount}{_DECIMAL_SUFFIX.get(exponent, '')}"


def _whole(quantity: Quantity) -> int | None:
    """None if there is a fraction (or the number is absurdly large)."""
    if quantity.exponent >= 0:
        within = quantity.exponent <= FAR_APART
        return int(quantity.unscaled * 10**quantity.exponent) if within else None
    whole, rest = divmod(quantity.unscaled, 10**-quantity.exponent)
    return None if rest else whole


def _sum(left: Quantity, right: Quantity) -> Quantity:
    fmt = right.format if left.is_zero() else left.format
    narrow = not left.wide and not right.wide
    if narrow and right.is_zero():
        return Quantity(left.unscaled, left.exponent, fmt)
    if narrow and left.is_zero():
        return Quantity(right.unscaled, right.exponent, fmt)
    if abs(left.exponent - right.exponent) > FAR_APART:
        larger = max(left, right, key=lambda quantity: (not quantity.is_zero(), quantity.exponent))
        return Quantity(larger.unscaled, larger.exponent, fmt, wide=True)
    ours, theirs, exponent = _aligned(left, right)
    stays = narrow and fits(ours) and fits(theirs) and fits(ours + theirs)
    return Quantity(ours + theirs, exponent, fmt, wide=not stays)


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    exponent = min(left.exponent, right.exponent)
    return (
        left.unscaled * 10 ** (left.exponent - exponent),
        right.unscaled * 10 ** (right.exponent - exponent),
        exponent,
    )
