"""Time and randomness: the one place that reads the wall clock or makes an identifier.

Everything else takes a `Clock` and an `Entropy` as arguments, so that the same code runs in a process of its
own or, under a virtual clock and a seed, deterministically in a test.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

# The alphabet of generated names: no vowels and nothing easily misread
# (k8s.io/apimachinery/pkg/util/rand, 1.36).
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


# The bits of a UUID that say its version and variant (RFC 4122, 4.4), and where they are.
_UUID_VERSION_4 = 0x4000_8000_0000_0000_0000
_DRAWN_AT_ONCE = 256  # UUIDs' worth of randomness
_UUID_MASK = ~0xF000_C000_0000_0000_0000


class Clock(Protocol):
    def now(self) -> datetime:
        """Current time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits for `seconds`; not at all if they are zero or negative."""
        ...


class Entropy(Protocol):
    def uid(self) -> str:
        """A new UUID (version 4) in RFC 4122's normalised form."""
        ...

    def suffix(self, length: int = 5) -> str:
        """A random suffix of names, in upstream's alphabet."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


def stopwatch() -> Callable[[], float]:
    """The seconds since this call, of real time also in a simulation: for choices that depend on how fast the
    machine is, and show in no log.
    """
    started = time.perf_counter()
    return lambda: time.perf_counter() - started


class SystemClock:
    """The clock of this machine; sleeping goes through the running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class _SystemRandom(random.SystemRandom):
    """The operating system's randomness, taken in larger pieces: a uid or a suffix is no system call."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn: list[int] = []

    def random(self) -> float:
        return (self._draw() >> 75) * 2.0**-53

    def getrandbits(self, k: int, /) -> int:
        return self._draw() >> (128 - k) if 0 < k <= 128 else super().getrandbits(k)

    def _draw(self) -> int:
        """128 random bits."""
        try:
            return self._drawn.pop()
        except IndexError:
            pool = os.urandom(16 * _DRAWN_AT_ONCE)
            self._drawn = [int.from_bytes(pool[at : at + 16]) for at in range(16, len(pool), 16)]
            return int.from_bytes(pool[:16])


def repeatable(seed: int | str) -> random.Random:
    """The same seed leads to the same numbers: for runs that can be repeated, never for secrets.

    A secure source has no seed: no simulation, plan of faults or awk program could be repeated with it.
    """
    return random.Random(seed)  # noqa: S311 - a secure source cannot be seeded; no secret comes of this


class SeededEntropy:
    """Draws identifiers and numbers: from a seed, so that they can be had again, or without one from the
    operating system, as components do outside of tests."""

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = _SystemRandom() if seed is None else repeatable(seed)

    def restart(self, seed: int) -> None:
        self._random.seed(seed)

    def uid(self) -> str:
        digits = f"{self._random.getrandbits(128) & _UUID_MASK | _UUID_VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def suffix(self, length: int = 5) -> str:
        return "".join(self._random.choice(SUFFIX_ALPHABET) for _ in range(length))

    def random(self) -> float:
        return self._random.random()


@dataclass(frozen=True, slots=True)
class _Deadline:
    """A moment of this machine's monotonic clock, which all its processes share."""

    end: float

    def __call__(self) -> bool:
        return time.monotonic() >= self.end


def deadline(seconds: float) -> Callable[[], bool]:
    """Starts a period; the function that it returns is true once it is over, in other processes, too. For
    code outside of event loops."""
    return _Deadline(time.monotonic() + seconds)


_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def later(moment: datetime, seconds: float) -> datetime:
    """Clients may choose `seconds`: the result goes no further than the calendar."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def timestamp(moment: datetime) -> str:
    """`metav1.Time` on the wire: RFC 3339, UTC, whole seconds."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="seconds")[:-6] + "Z"  # without +00:00


def micro_timestamp(moment: datetime) -> str:
    """`metav1.MicroTime` on the wire: RFC 3339, UTC, six decimals."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Parses RFC 3339; raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
