"""One minor's facts put into the tables that cover all minors, where they replace what was said of it.

What a table says of other minors stays. Rows keep their order; a new one follows its neighbours.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeskew.releases.catalogue.resources import minors, runs

Row = dict[str, Any]
Key = tuple[str, str, str]
State = tuple[str, int, int]  # stage, default, locked
Spans = dict[str, list[list[Any]]]

_KEYS = (
    "group", "version", "resource", "kind", "singular", "namespaced", "shortNames", "categories", "verbs",
    "subresources",
)  # fmt: skip


def with_resources(rows: Iterable[Row], served: Iterable[Row], minor: int, newest: int) -> list[Row]:
    """Rows of discovery, of which `served` are the minor's; the last of them all is `newest`."""
    histories: dict[Key, dict[int, Row]] = {}
    for row in rows:
        first, last = minors(row["minors"], newest)
        history = histories.setdefault(_key(row), {})
        history |= {number: _content(row) for number in range(first, last + 1) if number != minor}
    for row in served:
        history = histories.get(_key(row), {})
        _insert(histories, _key(row), history | {minor: _content(row)})
    return [
        {**content, "minors": _span(first, last, newest)}
        for history in histories.values()
        for first, last, content in runs(history)
    ]


def with_groups(groups: list[str], listed: list[str]) -> list[str]:
    """The groups in the order `listed`; one that is not among these follows the one that it followed."""
    found = list(listed)
    for place, group in enumerate(groups):
        if group not in found:
            found.insert(found.index(groups[place - 1]) + 1 if place else 0, group)
    return found


def with_group_order(
    orders: Mapping[str, list[str]], listed: list[str], minor: int, newest: int
) -> dict[str, list[str]]:
    """Orders of groups by span of minors, in which the minor has the order `listed`."""
    history: dict[int, list[str]] = {}
    for span, groups in orders.items():
        first, last = minors(span, newest)
        history |= dict.fromkeys(range(first, last + 1), groups)
    nearest = min(history, key=lambda number: abs(number - minor))
    history[minor] = with_groups(history[nearest], listed)
    return {_span(first, last, newest): groups for first, last, groups in runs(history)}


def with_gates(
    spans: Mapping[str, list[list[Any]]], states: Mapping[str, State], minor: int, keep: Iterable[str] = ()
) -> Spans:
    """States of gates, `{gate: [[first, last, stage, default, locked], …]}`. What is said of the gates to
    `keep` stays."""
    kept = set(keep)
    changed = {name: rows for name, rows in spans.items() if name not in kept}
    values = {name: list(state) for name, state in states.items() if name not in kept}
    stay = {name: rows for name, rows in spans.items() if name in kept}
    return dict(sorted((_with_rows(changed, values, minor) | stay).items()))


def with_values(spans: Mapping[str, list[list[Any]]], values: Mapping[str, Any], minor: int) -> Spans:
    """Tables of `{name: [[first, last, value], …]}`."""
    return _with_rows(spans, {name: [value] for name, value in values.items()}, minor)


def _with_rows(spans: Mapping[str, list[list[Any]]], values: Mapping[str, list[Any]], minor: int) -> Spans:
    """Rows are a first and a last minor, then what a value is made of."""
    histories: dict[str, dict[int, list[Any]]] = {
        name: {
            number: value
            for first, last, *value in rows
            for number in range(first, last + 1)
            if number != minor
        }
        for name, rows in spans.items()
    }
    for name, value in values.items():
        histories.setdefault(name, {})[minor] = value
    return {
        name: [[first, last, *value] for first, last, value in runs(history)]
        for name, history in sorted(histories.items())
        if history
    }


def _key(row: Row) -> Key:
    return row["group"], row["version"], row["resource"]


def _content(row: Row) -> Row:
    """The row without its span, its keys in the one order."""
    content = {key: row[key] for key in _KEYS if key in row}
    if "subresources" in row:
        subresources = sorted(row["subresources"].items())
        content["subresources"] = {name: dict(sorted(below.items())) for name, below in subresources}
    return content


def _span(first: int, last: int, newest: int) -> str:
    return f"1.{first}-" if last == newest else f"1.{first}-1.{last}"


def _insert(histories: dict[Key, dict[int, Row]], key: Key, history: dict[int, Row]) -> None:
    """A new resource comes behind those of its group and version, else behind those of its group."""
    if key in histories:
        histories[key] = history
        return
    keys = list(histories)
    for beginning in (key[:2], key[:1], ()):
        alike = [place for place, other in enumerate(keys) if other[: len(beginning)] == beginning]
        if alike:
            break
    place = alike[-1] + 1 if alike else 0
    listed = list(histories.items())
    histories.clear()
    histories.update([*listed[:place], (key, history), *listed[place:]])
