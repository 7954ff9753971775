"""The jobs of each release select their pods, and servers read each other's jobs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from server_in_process import Caller, close_server, open_server

JOBS = "/apis/batch/v1/namespaces/default/jobs"
LEGACY = ["controller-uid", "job-name"]
PREFIXED = ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"]
TRACKING = "batch.kubernetes.io/job-tracking"
Open = Callable[[int], Awaitable[Caller]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens servers of any minor over one log."""
    async with AsyncExitStack() as stack:

        async def open_one(minor: int) -> Caller:
            server = await open_server(minor, f"sqlite+aiosqlite:///{tmp_path}/log.db")
            stack.push_async_callback(close_server, server)
            return Caller(server)

        yield open_one


def job(name: str = "work", **metadata: Any) -> dict[str, Any]:
    """A job of one pod; more metadata as given."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, **metadata}, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    ("minor", "labels", "selected"),
    [
        (26, LEGACY, LEGACY[0]),
        (27, [*PREFIXED, *LEGACY], PREFIXED[0]),
        (36, [*PREFIXED, *LEGACY], PREFIXED[0]),
    ],
)
async def test_labels_and_selector(opened: Open, minor: int, labels: list[str], selected: str) -> None:
    """Up to 1.26 a job's pods have the labels without a prefix alone, and are selected by these."""
    api = await opened(minor)

    made = (await api.post(JOBS, job())).body

    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {selected: uid}}
    values = {name: uid if name.endswith("uid") else "work" for name in labels}
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"] == values


async def test_tracking_annotation(opened: Open) -> None:
    """1.26 marks its jobs as tracked by finalizers and lets nobody mark others; 1.27 does neither."""
    old, new = await opened(26), await opened(27)
    assert (await old.post(JOBS, job("old"))).body["metadata"]["annotations"] == {TRACKING: ""}
    assert "annotations" not in (await new.post(JOBS, job("new"))).body["metadata"]
    await old.post(JOBS, job("unmarked"))
    await new.patch(f"{JOBS}/unmarked", {"metadata": {"annotations": {TRACKING: None}}})
    mark = {"metadata": {"annotations": {TRACKING: ""}}}
    await old.server.services.store.refresh()

    refused = await old.patch(f"{JOBS}/unmarked", mark)

    assert refused.status == 422
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: cannot add this annotation",
            "field": f"metadata.annotations[{TRACKING}]",
        }
    ]
    assert (await old.patch(f"{JOBS}/old", {"metadata": {"labels": {"a": "b"}}})).status == 200
    assert (await new.patch(f"{JOBS}/new", mark)).status == 200


async def test_jobs_of_other_releases(opened: Open) -> None:
    """1.27 updates jobs of 1.26; 1.26 refuses to update those of 1.27, whose selector it does not make."""
    old, new = await opened(26), await opened(27)
    await old.post(JOBS, job("old"))
    await new.post(JOBS, job("new"))
    for api in (old, new):
        await api.server.services.store.refresh()
    change = {"metadata": {"labels": {"a": "b"}}}

    taken = await new.patch(f"{JOBS}/old", change)
    refused = await old.patch(f"{JOBS}/new", change)

    assert taken.status == 200
    assert list(taken.body["spec"]["selector"]["matchLabels"]) == ["controller-uid"]
    assert refused.status == 422
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == ["spec.selector"]
    assert refused.body["details"]["causes"][0]["message"].endswith("`selector` not auto-generated")
    status = {"status": {"active": 1}}
    assert (await old.patch(f"{JOBS}/new/status", status)).status == 200
