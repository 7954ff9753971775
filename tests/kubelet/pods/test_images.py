"""Images that cannot be had: the states, events and waits of their containers."""

from itertools import pairwise

import pytest

from kubeskew.kubelet.containers.image_entries import ImageEntry
from kubeskew.kubelet.node.config import NodeConfig

pytestmark = pytest.mark.looptime

MISSING = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/gone:latest": '
    'failed to resolve reference "docker.io/library/gone:latest": docker.io/library/gone:latest: not found'
)
BACK_OFF = 'Back-off pulling image "gone"'
ENTRIES = (("known*", ImageEntry.of({"runsFor": 5, "exitCode": 3, "onSigterm": "ignore"})),)


@pytest.fixture
def strict(node):
    """A node on which only images with an entry are there."""
    node.config = NodeConfig("node-1", capacity=node.config.capacity, images=ENTRIES, image_policy="strict")
    return node


def _waiting(status):
    [one] = status.get("containerStatuses") or [{}]
    waiting = (one.get("state") or {}).get("waiting") or {}
    return waiting.get("reason"), waiting.get("message")


def gone(policy):
    return [{"name": "main", "image": "gone", "imagePullPolicy": policy}]


@pytest.mark.parametrize(
    ("version", "why"), [("1.31", BACK_OFF), ("1.32", f"{BACK_OFF}: ErrImagePull: {MISSING}")]
)
@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
async def test_an_image_that_no_registry_has(strict, version, why, policy):
    """It is pulled ever later; since 1.32 a container that waits says why."""
    await strict.start(version)
    await strict.create(containers=gone(policy))
    await strict.until_pod(lambda status: _waiting(status) == ("ErrImagePull", MISSING))
    pod = await strict.until_pod(lambda status: _waiting(status) == ("ImagePullBackOff", why))
    assert pod["status"]["phase"] == "Pending"
    await strict.until_pod(lambda status: _waiting(status)[0] == "ErrImagePull")
    events = [event for event in await strict.events() if event[0] in {"Pulling", "Failed", "BackOff"}]
    assert [*dict.fromkeys(events)] == [
        ("Pulling", 'Pulling image "gone"'),
        ("Failed", f'Failed to pull image "gone": {MISSING}'),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", BACK_OFF),
        ("Failed", "Error: ImagePullBackOff"),
    ]


async def test_pulls_come_ever_later(strict, server):
    """Ten seconds, then twenty, then forty pass between pulls at least."""
    await strict.start()
    pulls = []
    images = strict.agent._services.images._images
    pull = images.pull_image

    async def counted(name):
        pulls.append(strict.clock.monotonic())
        return await pull(name)

    images.pull_image = counted
    await strict.create(containers=gone("Always"))
    await strict.until(lambda: len(pulls) == 5)
    waits = [after - before for before, after in pairwise(pulls)]
    assert [wait > least - 0.01 for wait, least in zip(waits, (10, 20, 40, 80), strict=True)] == [True] * 4
    assert waits[-1] < 100


async def test_an_image_that_is_never_pulled(strict):
    """With the policy Never an image that is not there is an error of its own."""
    await strict.start()
    await strict.create(containers=gone("Never"))
    text = 'Container image "gone" is not present with pull policy of Never'
    await strict.until_pod(lambda status: _waiting(status) == ("ErrImageNeverPull", text))
    await strict.clock.sleep(1)
    events = await strict.events()
    assert ("ErrImageNeverPull", text) in events
    assert ("Failed", "Error: ErrImageNeverPull") in events
    assert "Pulling" not in [reason for reason, _ in events]


async def test_an_image_with_an_entry_is_acted_as_it_says(strict):
    """Its container ends as the entry says; annotations come before it."""
    await strict.start()
    await strict.create(containers=[{"name": "main", "image": "known:1"}], restartPolicy="Never")
    annotations = {"kubelet.kubeskew.io/exit-code": "4"}
    main = [{"name": "main", "image": "known:2"}]
    await strict.create("other", containers=main, annotations=annotations, restartPolicy="Never")
    for name, code in (("pod-1", 3), ("other", 4)):
        pod = await strict.until_pod(lambda status: status.get("phase") == "Failed", name)
        [status] = pod["status"]["containerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == code
    assert 5 <= strict.clock.monotonic() < 8


async def test_a_runtime_that_there_is_not(node):
    """A kubelet with a runtime that cannot be had does not run, and says so."""
    node.config = NodeConfig("node-1", capacity=node.config.capacity, runtime="other")
    with pytest.raises(Exception, match="there is no container runtime other"):
        await node.start()
