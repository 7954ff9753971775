"""Our controllers do with workloads, services and volumes as recorded ones of 1.20 and 1.36.3 did."""

import asyncio
from typing import Any

import pytest
import yaml
from recorded import DATA
from transcript_answers import differing, unexplained
from transcripts import Run, load, run_all

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("sessions"), pytest.mark.timeout(600)]

FILES = [
    DATA / "workloads-1.20" / "workloads.golden.json",
    *sorted((DATA / "real-1.36").glob("strict-*.golden.json")),
]
RECORDED = {name: value for file in FILES for name, value in load(file).items()}
# Sequences that are not answered alike, with every difference; another one fails.
# Hashes of pod templates come from Go's print of the struct, which docs/fidelity.md leaves out.
_HASHES = r"expected '(.*)\b[0-9a-z]{8,10}\b(.*)', got '\1[0-9a-z]{8,10}\2'$"
_NOT_ALIKE = {
    "deployment-creates-replicaset-and-pods": _HASHES,
    "deployment-rollout": _HASHES,
    # Addresses and ports are random.
    "service-defaults": r"body\.spec\.(ports\[0\]\.nodePort|clusterIP|clusterIPs\[0\]): expected .*, got ",
    # Since 1.33 a 404 for a missing Scale names the resource itself (the storage.go of each scale).
    "scale-of-nothing": r"body\.(message: .*/scale\S* \"nope\" not found|details\.(kind|group): )",
    # The controllers that annotate nodes and that take away the taint of admission (a node without
    # conditions gets no taint: doNoScheduleTaintingPass) have their turns earlier or later than the
    # next request, and are then managers of fields.
    "nodes": (
        r"body\.metadata\.(annotations: .*node\.alpha\.kubernetes\.io/ttl|managedFields)"
        r"|body\.spec\.taints: missing, expected \[\{'key': 'node\.kubernetes\.io/not-ready'[^}]*\}\]$"
    ),
}
_ALIKE_AT_TIMES = {"nodes"}


@pytest.fixture(scope="module")
def runs(unscheduled: Any) -> dict[str, Run]:
    """Every sequence run once, some side by side."""
    kubeconfig = yaml.safe_load(unscheduled.kubeconfig.read_text())
    token = (unscheduled.state / "admin.token").read_text().strip()
    return asyncio.run(run_all(kubeconfig["clusters"][0]["cluster"]["server"], RECORDED, token))


@pytest.mark.parametrize("name", RECORDED)
def test_the_controllers_do_as_recorded(runs: dict[str, Run], name: str):
    """Controllers make, adopt, release, count and delete objects in the recorded order."""
    found = differing(runs[name])

    assert bool(found) == (name in _NOT_ALIKE) or name in _ALIKE_AT_TIMES, found
    assert unexplained(found, _NOT_ALIKE.get(name)) == []
