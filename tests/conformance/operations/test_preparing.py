"""The operation `prepared`: which claims are prepared, where, by whom and with which devices."""

import pytest
from cell_in_memory import POD, Control, run

from kubeskew.conformance.evidence.log import ComponentChange
from kubeskew.conformance.evidence.nodes import PreparedClaim

pytestmark = pytest.mark.looptime


def claim(node: str, driver: str, name: str, *devices: str) -> PreparedClaim:
    prepared = [{"pool": node, "device": device, "cdiIDs": [f"{driver}/claim={name}"]} for device in devices]
    return PreparedClaim(node, driver, "t", name, f"uid-{name}", prepared)


HELD = {
    "n": [claim("n", "d", "a", "gpu-0", "gpu-1"), claim("n", "e", "a", "nic-0"), claim("n", "d", "b")],
    "m": [claim("m", "d", "c", "gpu-7")],
}
WITH_CLAIM = POD.replace("spec: {}", "spec: {resourceClaims: [{name: x, resourceClaimName: c}]}")


async def outcome(body: str) -> str:
    """The failure of an operation in a cell with a pod `a` that uses claim `c`."""
    control = Control()
    control.held = HELD
    control.written = [ComponentChange(1, "", "kubelet/n", "started", "1.36", "")]
    operations = f"[{{apply: {{resource: {WITH_CLAIM}}}}}, {{prepared: {{{body}}}}}]"
    result = await run(f"\n  - name: one\n    try: {operations}\n", control)
    return result.error or result.failure.removeprefix("one: prepared: ")


@pytest.mark.parametrize(
    "body",
    [
        "node: n, count: 2",
        "node: other, count: 0",
        "driver: e, count: 1",
        "claim: a",
        "claim: [a, b, c]",
        "claim: a, node: n, driver: d, devices: [gpu-1, gpu-0]",
        "claim: a, node: n, driver: d, cdiDeviceIDs: [d/claim=a]",
        "claim: a, node: n, devices: [gpu-0, gpu-1, nic-0]",
        "claim: a, node: m, absent: true",
        "claim: z, absent: true",
        "pod: a, node: m, devices: [gpu-7]",
        "pod: a, node: n, absent: true",
    ],
)
async def test_claims_that_are_prepared_as_wanted_hold(body: str):
    """Claims are chosen by name, by pod, or all; node and driver narrow them down."""
    assert await outcome(body) == ""


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (
            "node: n, count: 1",
            f"expected 1 claims prepared by kubelet/n 1.36; found {', '.join(map(str, HELD['n']))}",
        ),
        ("claim: z", "expected claims prepared (claim z); found none"),
        (
            "claim: [b, z]",
            "expected claims prepared (claim b, z); found t/b by d on n; not z",
        ),
        (
            "claim: c, devices: [gpu-0]",
            "expected claims prepared (claim c) with devices gpu-0; found devices gpu-7",
        ),
        (
            "claim: b, cdiDeviceIDs: [x]",
            "expected claims prepared (claim b) with cdiDeviceIDs x; found cdiDeviceIDs none",
        ),
        (
            "claim: c, node: m, absent: true",
            "expected no claim prepared by kubelet/m (claim c); found t/c by d on m with gpu-7",
        ),
        ("pod: gone", "expected claims prepared (pod gone); found no pod gone"),
    ],
)
async def test_claims_that_are_prepared_otherwise_fail(body: str, failure: str):
    """The failure shows what is wanted, of which kubelet, and what is prepared instead."""
    assert await outcome(body) == failure


async def test_what_is_prepared_can_be_bound():
    """`outputs` give later operations the list of what was found."""
    control = Control()
    control.held = HELD
    outputs = 'outputs: [{name: device, value: "([0].devices[0].device)"}]'
    label = "{metadata: {name: a, labels: {device: ($device)}}, apiVersion: v1, kind: Pod}"
    steps = f"""
  - name: one
    try:
    - apply: {{resource: {POD}}}
    - prepared: {{claim: c, {outputs}}}
    - patch: {{resource: {label}}}
    - assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{labels: {{device: gpu-7}}}}}}}}
"""
    assert (await run(steps, control)).failure == ""
