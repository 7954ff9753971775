"""The site's page of a scenario's operations, made of the grammar, for hack/documents/site.py."""

import inspect
from collections.abc import Iterator

from kubeskew.apimachinery.faults import syntax
from kubeskew.conformance import grammar
from kubeskew.conformance.runner import RUN
from kubeskew.kubelet.drivers import switches

_HEAD = """\
# Operations of scenarios

The keys that each operation of a step may have; [the page of scenarios](scenarios.md) explains them with
examples. A file with another key is refused before anything is run.

Every operation may also have `description`, which reports show, `continueOnError: true`, `as: {user:
NAME}`, the user that it is done as, and `through: apiserver-2`, the API server that is asked.
"""
_OF_CLUSTER = "Only on a cluster of kubeskew's."


def page() -> str:
    """Operations have a section each."""
    return "\n".join([_HEAD, *(line for kind in grammar.OPERATIONS for line in _section(kind))]) + "\n"


def _section(kind: str) -> Iterator[str]:
    shape = grammar.OPERATIONS[kind]
    yield from (f"## {kind}", "")
    said = (inspect.getdoc(RUN[kind]) or "").partition("\n\n")[0].replace("\n", " ")
    yield f"{said} {_OF_CLUSTER if shape.of_cluster else ''}".rstrip()
    yield ""
    yield from ("| key | what it means |", "| --- | --- |")
    for key in shape.keys:
        if said := grammar.meaning(kind, key)[0]:
            needed = " Required." if key in shape.required else ""
            yield f"| `{key}` | {said}{needed} |"
    yield ""
    if kind in _WRITTEN:
        yield from ("And:", "", _WRITTEN[kind].partition("\n\n")[2].strip("\n"), "")


# The other keys of these two are in the docstrings of their readers, in blocks.
_WRITTEN = {"fault": inspect.getdoc(syntax) or "", "driver": inspect.getdoc(switches) or ""}
