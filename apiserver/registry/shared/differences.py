"""Prints the difference of two structs, in the manner of go-cmp (upstream's layout, not its every line)."""

import json
from typing import Any

from kubeskew.apimachinery.objects import Object


def struct_difference(name: str, old: Object, new: Object) -> str:
    """Shows the difference of two structs; `name`: the Go type. The fields that differ, each before and
    after.
    """
    lines = [f"  {name}{{"]
    same = 0
    for field in dict.fromkeys([*old, *new]):
        if old.get(field) == new.get(field):
            same += 1
            continue
        if same:
            lines.append(f"  \t... // {same} identical fields")
            same = 0
        title = field[:1].upper() + field[1:]
        lines += [f"- \t{title}: {_shown(old.get(field))},", f"+ \t{title}: {_shown(new.get(field))},"]
    if same:
        lines.append(f"  \t... // {same} identical fields")
    return "\n".join([*lines, "  }", ""])


def spec_difference(old: Object, new: Object) -> str:
    return struct_difference("core.PodSpec", old, new)


def _shown(value: Any) -> str:
    return "nil" if value is None else json.dumps(value, ensure_ascii=False)
