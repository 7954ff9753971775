"""The operation `simulate`: its questions, and the answers that it takes."""

import pytest
from cell_in_memory import Control, run

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.log import ComponentChange

pytestmark = pytest.mark.looptime

_AMOUNTS = {"cpu": "1", "memory": "8Gi", "pods": "110"}


async def outcome(*operations: str) -> str:
    """Returns why a step fails, on a cluster with a node that one of two pods fits."""
    control = Control()
    control.written = [ComponentChange(1, "", "scheduler", "started", "1.36", "")]
    client = control.client()
    await client.create(NODES, {"metadata": {"name": "n0"}, "status": {"allocatable": _AMOUNTS}})
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    for name in ("a", "b"):
        pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        await client.create(PODS, pod, "default")
    steps = "".join(f"\n  - name: step {n}\n    try: [{each}]" for n, each in enumerate(operations))
    try:
        result = await run(f"{steps}\n", control)
    except ScenarioError as error:
        return str(error)
    return result.error or result.failure


NEW = "scaleUp: {nodes: [{name: new, capacity: {cpu: '2'}}]}"


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (f"{NEW}, answer: {{templates: [{{nodes: 1}}], existing: [{{node: n0}}]}}", ""),
        ("scaleUp: {nodes: [{name: new}], max: 0}, answer: {templates: [{nodes: 0}]}", ""),
        (f"{NEW}, answer: {{templates: [{{nodes: 2}}]}}", "templates[0].nodes: expected 2, found 1"),
        ("scaleDown: n0, answer: {removable: true}", ""),
        ("scaleDown: n0, answer: {removable: false}", "removable: expected False, found True"),
        ("scaleDown: gone", "UnknownNodeError: gone"),
        ("scaleUp: {nodes: []}", "has no nodes"),
        (f"{NEW}, scaleDown: n0", "expected either `scaleUp` or `scaleDown`"),
        ("answer: {}", "expected either `scaleUp` or `scaleDown`"),
        ("scaleUp: {nodes: [{name: new}], least: 1}", "unknown key least"),
    ],
)
async def test_an_answer_is_compared(body, failure):
    """A step fails if the simulation answers otherwise than the file, or cannot answer."""
    found = await outcome(f"{{simulate: {{{body}}}}}")
    assert (failure in found) if failure else not found


async def test_an_answer_can_be_bound():
    """Later operations may use parts of the answer."""
    bound = "outputs: [{name: count, value: '(templates[0].nodes)'}]"
    again = "scaleUp: {nodes: [{name: new}], max: ($count)}, answer: {templates: [{nodes: 1}]}"
    assert not await outcome(f"{{simulate: {{{NEW}, {bound}}}}}", f"{{simulate: {{{again}}}}}")
