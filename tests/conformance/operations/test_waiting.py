"""Waiting for objects by a watch, against an API server in memory, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cell_in_memory import Control, run

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.transport import Request
from kubeskew.apimachinery.errors import StatusError
from kubeskew.conformance.errors import UnservedKindError
from kubeskew.conformance.evidence.log import Write
from kubeskew.conformance.kinds import Kinds

pytestmark = pytest.mark.looptime

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {}}
WAITS = {
    "assert by name": "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {b: x}}}}",
    "assert by labels": "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {labels: {b: x}}}}",
    "a number": "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {labels: {b: x}}}, count: 1}",
    "error": "error: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: a}}}}",
    "wait": "wait: {apiVersion: v1, kind: Pod, name: a, for: {condition: {name: Ready}}}",
}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


async def late(control: Control, operation: str, then: Callable[[], Awaitable[None]] | None = None) -> str:
    """The failure of an operation that waits for a change after 1.5 s; `then` happens after 1 s."""
    await control.client().create(PODS, POD, "t")

    async def change() -> None:
        await asyncio.sleep(1)
        if then is not None:
            await then()
        await asyncio.sleep(0.5)
        await control.client().patch(PODS, "a", "t", {"metadata": {"labels": {"app": "b", "b": "x"}}})
        await control.client().patch(PODS, "a", "t", READY, subresource="status")

    changing = asyncio.ensure_future(change())
    result = await run(f"\n  - name: one\n    try: [{{{operation}}}]\n", control)
    await changing
    return result.failure


def reads(control: Control) -> list[Request]:
    """The requests that read pods, without watches."""
    return [seen for seen in control.server.seen if "/pods" in seen.target and "watch=" not in seen.target]


@pytest.mark.parametrize("operation", WAITS.values(), ids=WAITS.keys())
async def test_a_wait_reads_twice_and_then_watches(operation: str):
    """A change is found as it comes: the objects are read once, listed once and watched."""
    control = Control()
    assert await late(control, operation) == ""

    waiting = [seen for seen in reads(control) if seen.method == "GET"]
    assert len(waiting) == 2


@pytest.mark.parametrize("operation", WAITS.values(), ids=WAITS.keys())
async def test_a_wait_reads_again_and_again_where_no_watch_is_allowed(operation: str):
    """A server that forbids the watch is asked until the change is there."""
    control = Control()

    def forbid(request: Request) -> BaseException | None:
        return StatusError(403, "Forbidden", "no watch") if "watch=" in request.target else None

    control.server.outage = forbid
    assert await late(control, operation) == ""


async def test_what_has_no_revision_is_read_each_second(monkeypatch: pytest.MonkeyPatch):
    """Lists without a resourceVersion, as those of metrics, cannot be followed: they are read again."""
    control = Control()
    answered = APIClient.list

    async def unversioned(self: APIClient, *scope: Any) -> Any:
        found = await answered(self, *scope)
        return {**found, "metadata": {}}

    monkeypatch.setattr(APIClient, "list", unversioned)
    assert await late(control, WAITS["assert by labels"]) == ""
    assert not [seen for seen in control.server.seen if "watch=" in seen.target]
    assert len(reads(control)) < 10


async def test_a_wait_outlives_a_watch_that_breaks():
    """A watch that the server ends is begun again, also when history is gone."""

    async def cut(control: Control) -> None:
        control.server.compact()
        await control.server.disconnect()

    for operation in WAITS.values():
        control = Control()
        assert await late(control, operation, lambda control=control: cut(control)) == ""


async def test_a_wait_says_what_was_lacking_at_its_end():
    """A watch without news ends in time, with what the last look found."""
    control = Control()
    await control.client().create(PODS, POD, "t")
    operation = "assert: {resource: {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {b: x}}}}"
    result = await run(f"\n  - name: one\n    try: [{{{operation}}}]\n", control)

    assert result.failure == (
        "one: assert: expected a Pod as asserted; found "
        "Pod t/a: metadata.labels.b: expected 'x', found nothing"
    )
    assert 2 <= result.seconds < 3


@pytest.mark.parametrize(("unserved", "failure"), [(3, False), (1000, True)])
async def test_a_kind_may_be_defined_while_it_is_awaited(monkeypatch, unserved: int, failure: bool):
    """An assertion waits for a kind that somebody defines late, and fails if nobody does."""
    look_up, attempts = Kinds.ref, []

    async def late_ref(kinds: Kinds, api_version: str, kind: str):
        attempts.append(kind)
        if len(attempts) <= unserved:
            raise UnservedKindError(f"the server to serve {api_version}", "404 page not found")
        return await look_up(kinds, api_version, kind)

    monkeypatch.setattr(Kinds, "ref", late_ref)
    pods = "{apiVersion: v1, kind: Pod, metadata: {labels: {app: none}}}"
    result = await run(f"\n  - name: one\n    try: [assert: {{resource: {pods}, count: 0}}]\n", Control())

    assert ("the server to serve v1" in result.failure) == failure
    assert result.passed != failure


async def test_what_a_deletion_leaves_shows_who_keeps_it():
    """The finalizers that are left, and who wrote the object last, say who should have let it go."""
    control = Control()
    made = await control.client().create(
        PODS, {**POD, "metadata": {**POD["metadata"], "finalizers": ["example.com/kept"]}}, "t"
    )
    place = ("update", "pods", "t", "a")
    control.written = [Write(7, "", *place, "kube-controller-manager 1.36", made)]
    result = await run(
        "\n  - name: one\n    try: [{delete: {ref: {apiVersion: v1, kind: Pod, name: a}}}]\n", control
    )

    assert result.failure == (
        "one: delete: expected Pod to be gone; found still there: Pod t/a held by example.com/kept "
        "(last written by kube-controller-manager 1.36 at revision 7)"
    )
