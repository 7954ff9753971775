"""Shows what an exploration found: a page, and lines for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

_WIDTH = 78  # of a time line's column in a terminal


def as_html(report: Mapping[str, Any], title: str) -> str:
    """Returns one page without anything from elsewhere."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("kubeskew.simulation.explore")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True)
    return environment.get_template("exploration.html").render(report=report, title=title)


def as_text(finding: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines that tell a finding, with both time lines beside each other."""
    step = f"{finding['step']}: " if finding["step"] else ""
    yield f"{finding['id']} [{finding['class']}] {finding['invariant']}: {step}{finding['message']}"
    if finding["known"]["id"]:
        yield f"  {finding['known']['id']}: {finding['known']['reason']} ({finding['known']['source']})"
    steps = "" if finding["steps"] is None else f", its first {finding['steps']} steps"
    yield f"  {finding['cell']}, seed {finding['seed']}{steps}; seen in {finding['seen']} runs"
    yield f"  again: {finding['command']}"
    for fault in finding["faults"]:
        yield f"  fault: {fault}"
    if finding["events"]:
        yield f"  {'with the faults':{_WIDTH}} | without"
    for pair in finding["events"]:
        if not pair["with"] and not pair["without"]:
            yield "  …"
            continue
        yield f"  {_cell(pair['with']):{_WIDTH}} | {_cell(pair['without'])}".rstrip()


_SIGNS = {"fault": "!", "found": "X", "parted": ">"}


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    text = f"{_SIGNS.get(row['mark'], ' ')} {row['seconds']:8.3f} {row['by']}: {row['what']}"
    text = " ".join(text.split("\n"))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
