"""Bring `apiserver/authorization/default_roles.json` up to the default roles and bindings of source trees.

    default_roles.py --output apiserver/authorization/default_roles.json TREE …

Each TREE is a source tree of Kubernetes, 1.31 or later; its minor is what the tree says. Roles that the table
has for that minor with the same rules, whichever gates are on, stay as they are written; others get or lose
the minor. Names after `--without` are of a fork: roles, bindings and resources of rules that are left out.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.versions import NEWEST_MINOR
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.roles import roles
from kubeskew.releases.tree.source_tree import SourceTree

Row = dict[str, Any]
_OURS = "kubeskew:"
_LISTS = ("rules", "subjects")


def merged(table: Row, of_tree: dict[str, list[Row]], minor: int, newest: int) -> Row:
    """A table that has for this minor what the tree has. Of the newest minor on a period has no end."""
    return table | {
        section: _entries(table[section], entries, minor, newest) for section, entries in of_tree.items()
    }


def _entries(table: list[Row], of_tree: list[Row], minor: int, newest: int) -> list[Row]:
    expected = {_key(entry): entry for entry in of_tree}
    known = {_key(entry) for entry in table}
    found = []
    for entry in table:
        wanted = expected.get(_key(entry))
        if entry["name"].startswith(_OURS) or (wanted is not None and _same(entry, wanted, minor)):
            found.append(entry)
        elif wanted is None:
            found += _cut([entry], minor, newest)
        else:
            found.append(_changed(entry, wanted, minor, newest))
    new = [entry for entry in of_tree if _key(entry) not in known]
    return found + [_entry_since(entry, minor, newest) for entry in new]


def _key(entry: Row) -> tuple[str, str]:
    return entry.get("namespace", ""), entry["name"]


def _entry_since(entry: Row, minor: int, newest: int) -> Row:
    """The rules of an entry that is new need no period of their own."""
    return _added(_fields(entry), entry, minor, newest)


def _changed(entry: Row, wanted: Row, minor: int, newest: int) -> Row:
    changed = {**entry, **{name: value for name, value in _fields(wanted).items() if name not in _LISTS}}
    for name in _LISTS:
        if name in wanted:
            changed[name] = _rows(entry.get(name, []), wanted[name], minor, newest)
    if _periods(entry, minor) != _periods(wanted, minor):
        left = _cut([{**changed, "when": entry.get("when", [{}])}], minor, newest)
        changed = _added(left[0] if left else _fields(changed), wanted, minor, newest)
    return changed


def _rows(table: list[Row], of_tree: list[Row], minor: int, newest: int) -> list[Row]:
    """Rules keep their places, unless the tree has them in another order; new ones come where it has them."""
    rows: list[Row | None] = [next(iter(_cut([row], minor, newest)), None) for row in table]
    fields = [_fields(row) for row in table]
    place = 0
    for wanted in of_tree:
        plain = _fields(wanted)
        if plain in fields[place:]:
            place = fields.index(plain, place)
            rows[place] = _added(rows[place] or plain, wanted, minor, newest, fresh=rows[place] is None)
        else:
            rows.insert(place, _added(plain, wanted, minor, newest, fresh=True))
            fields.insert(place, plain)
        place += 1
    return [row for row in rows if row is not None]


def _fields(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "when"}


def _periods(row: Row, minor: int) -> list[Row]:
    """Gates that are on and off, of the periods that have the minor; those of previews are apart."""
    return [
        {name: period[name] for name in ("gates", "without") if name in period}
        for period in row.get("when", [{}])
        if _covers(period, minor)
    ]


def _covers(period: Row, minor: int) -> bool:
    return "preview" not in period and period.get("since", 0) <= minor <= period.get("until", minor)


def _cut(rows: list[Row], minor: int, newest: int) -> list[Row]:
    """Rows without the minor; one that has no other is left out."""
    found = []
    for row in rows:
        if not _periods(row, minor):
            found.append(row)
            continue
        periods: list[Row] = []
        for period in row.get("when", [{}]):
            if not _covers(period, minor):
                periods.append(period)
                continue
            if period.get("since", 0) < minor:
                periods.append(_ordered({**period, "until": minor - 1}))
            if period.get("until", newest) > minor:
                periods.append(_ordered({**period, "since": minor + 1}))
        if periods:
            found.append({**_fields(row), "when": periods})
    return found


def _added(row: Row, wanted: Row, minor: int, newest: int, *, fresh: bool = False) -> Row:
    """A row that holds in the minor, too, under the conditions that the tree's has."""
    periods = [] if fresh or "when" not in row else list(row["when"])
    for condition in _periods(wanted, minor):
        end = {} if minor >= newest else {"until": minor}
        periods = _joined([*periods, _ordered({"since": minor, **end, **condition})])
    return _fields(row) if periods == [{}] else {**_fields(row), "when": periods}


def _joined(periods: list[Row]) -> list[Row]:
    """Periods that follow one another under the same conditions are one."""
    *others, last = periods
    for place, period in enumerate(others):
        if {**period, "since": 0, "until": 0} != {**last, "since": 0, "until": 0} or "preview" in period:
            continue
        ends = (period, last) if period.get("until") == last.get("since", 0) - 1 else (last, period)
        if ends[0].get("until") == ends[1].get("since", 0) - 1:
            bounds = {"since": ends[0].get("since"), "until": ends[1].get("until")}
            whole = {name: value for name, value in {**period, **bounds}.items() if value is not None}
            return _joined([*others[:place], *others[place + 1 :], _ordered(whole)])
    return sorted(periods, key=lambda period: period.get("since", 0))


def _ordered(period: Row) -> Row:
    return {name: period[name] for name in ("since", "until", "gates", "without") if name in period}


def _same(entry: Row, wanted: Row, minor: int) -> bool:
    """Whichever gates are on: none, all, any one, all but one."""
    gates = set(_gates(wanted)) | set(_gates(entry))
    states = [set[str](), gates, *({gate} for gate in gates), *(gates - {gate} for gate in gates)]
    return all(_view(entry, minor, on) == _view(wanted, minor, on) for on in states)


def _gates(row: Row) -> Iterator[str]:
    for period in row.get("when", ()):
        yield from (*period.get("gates", ()), *period.get("without", ()))
    for name in _LISTS:
        for listed in row.get(name, ()):
            yield from _gates(listed)


def _view(entry: Row, minor: int, on: set[str]) -> Row | None:
    """The entry as it is in a minor with these gates; None if it is not there."""
    if not _held(entry, minor, on):
        return None
    lists = {name: [_fields(row) for row in entry.get(name, ()) if _held(row, minor, on)] for name in _LISTS}
    return _fields(entry) | lists


def _held(row: Row, minor: int, on: set[str]) -> bool:
    return any(
        set(period.get("gates", ())) <= on and on.isdisjoint(period.get("without", ()))
        for period in _periods(row, minor)
    )


def left_out(of_tree: dict[str, list[Row]], names: set[str]) -> dict[str, list[Row]]:
    """Roles without those of a fork."""
    return {
        section: [_with_rules(entry, names) for entry in entries if entry["name"] not in names]
        for section, entries in of_tree.items()
    }


def _with_rules(entry: Row, names: set[str]) -> Row:
    if "rules" not in entry:
        return entry
    return entry | {"rules": [rule for rule in entry["rules"] if names.isdisjoint(rule.get("resources", ()))]}


def text(table: Row) -> str:
    """One line per rule and subject."""
    sections = []
    for name, value in table.items():
        if isinstance(value, list):
            entries = ",\n".join(_entry_text(entry) for entry in value)
            sections.append(f' "{name}": [\n{entries}\n ]')
        else:
            sections.append(f' "{name}": {_line(value)}')
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _entry_text(entry: Row) -> str:
    lines = []
    for name, value in entry.items():
        rows = ",\n".join(f"    {_line(row)}" for row in value) if name in _LISTS else ""
        lines.append(f'   "{name}": [\n{rows}\n   ]' if rows else f'   "{name}": {_line(value)}')
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--output", type=Path, required=True, help="the table, which is changed")
    parser.add_argument("--without", metavar="NAME,…", default="", help="roles and resources of a fork")
    arguments = parser.parse_args()
    table = json.loads(arguments.output.read_text("utf-8"))
    for directory in arguments.trees:
        try:
            tree = SourceTree(directory)
            found = left_out(roles(tree), set(arguments.without.split(",")))
        except TreeError as error:
            raise SystemExit(str(error)) from None
        table = merged(table, found, tree.minor, max(tree.minor, NEWEST_MINOR))
        print(f"1.{tree.minor}: {sum(map(len, found.values()))} roles and bindings", file=sys.stderr)
    arguments.output.write_text(text(table), "utf-8")


if __name__ == "__main__":
    main()
