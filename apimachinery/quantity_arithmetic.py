"""The integer arithmetic of quantities: powers of ten, and 64 bits with their overflow.

Source: k8s.io/apimachinery/pkg/api/resource (math.go, scale_int.go), 1.36.
"""

INT64_MAX = (1 << 63) - 1
# Powers of ten that upstream multiplies by at once; it multiplies by others step by step.
_MULTIPLIED_ONCE = frozenset({1, 2, 3, 6, 9})
FAR_APART = 10_000  # decimal places beyond which the smaller operand of a sum is dropped


def without_factor(number: int, factor: int) -> tuple[int, int]:
    """Returns `number` without its factors of `factor`, and how many there were."""
    times = 0
    while number and number % factor == 0:
        number //= factor
        times += 1
    return number, times


def power(places: int) -> int:
    """Returns ten to a power that is not negative."""
    return int(10**places)


def fits(number: int) -> bool:
    """Returns whether 64 bits hold `number`."""
    return -INT64_MAX - 1 <= number <= INT64_MAX


def wrap(number: int, bits: int = 64) -> int:
    """Returns `number` as a signed machine integer that overflowed."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def times_power(number: int, places: int) -> int | None:
    """Returns `number * 10**places` if that fits 64 bits."""
    if number == 0:
        return 0
    if places >= 19:
        return None
    grown: int = number * 10**places
    return grown if fits(grown) else None


def times_power_wrapped(number: int, places: int) -> int:
    """Returns the same as upstream without its check for overflow: wrapped where it multiplies once, else
    0."""
    grown = times_power(number, places)
    if grown is not None:
        return grown
    return wrap(number * power(places)) if places in _MULTIPLIED_ONCE else 0


def divide_away(number: int, places: int) -> int:
    """Returns `number / 10**places`, with fractions rounded away from zero."""
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
