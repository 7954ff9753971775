"""Writes Prometheus' text format for pages made at each scrape, with the time of each value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Family:
    """One metric: its samples have labels, a value and perhaps a time."""

    name: str
    kind: str  # counter or gauge
    help: str
    samples: list[str] = field(default_factory=list)

    def add(self, value: float, labels: Mapping[str, str] | None = None, at: datetime | None = None) -> None:
        """Adds a sample; `at` is its time."""
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in (labels or {}).items())
        moment = f" {int(at.timestamp() * 1000)}" if at is not None else ""
        self.samples.append(f"{self.name}{'{' + shown + '}' if shown else ''} {_number(value)}{moment}")


def rendered(families: Iterable[Family]) -> str:
    """Returns the page: families by name, without those that have no samples."""
    lines = []
    for family in sorted(families, key=lambda each: each.name):
        if family.samples:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += family.samples
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """Formats a number as Go's 'g': the shortest text, from 1e+06 on with an exponent of two digits."""
    if abs(value) < 1e6 and (value == 0 or abs(value) >= 1e-4):
        return repr(float(value)).removesuffix(".0")
    digits = next(count for count in range(17) if float(f"{value:.{count}e}") == value)
    return f"{value:.{digits}e}"
