"""Signatures: findings that differ by chance have one, others have others."""

from kubeskew.simulation.explore.findings import signature


def test_chance_is_no_difference():
    """Drawn names, uids, numbers, times and the object's name make no other signature."""
    first = signature(
        "I02",
        "ResourceClaim default/web-7c9d8f6b5d-x2k4z-gpu-bcdfg is reserved for Pod web-7c9d8f6b5d-x2k4z"
        ", which is gone (uid 1b4e28ba-2fa1-41d2-883f-0016d3cca427,"
        " since 2026-01-01T00:00:10.123456Z at revision 311)",
    )
    second = signature(
        "I02",
        "ResourceClaim kube/job-zzzzz is reserved for Pod web-5f7d8f6bcd-qqqqq, which is gone"
        " (uid 6ba7b810-9dad-11d1-80b4-00c04fd430c8, since 2026-01-01T00:01:00Z at revision 12)",
    )
    assert first == second


def test_what_happened_is_a_difference():
    """Another invariant, another kind of object or another text is another signature."""
    signatures = {
        signature("I02", "Pod default/a stays"),
        signature("I03", "Pod default/a stays"),
        signature("I03", "Job default/a stays"),
        signature("I03", "Pod default/a goes"),
    }
    assert len(signatures) == 4


def test_components_of_nodes_are_alike():
    """Another node's kubelet makes no difference; which component it was does."""
    assert signature("I14", "kubelet/node-1 ended by itself") == signature(
        "I14", "kubelet/gpu-node ended by itself"
    )
    assert signature("I14", "kubelet/node-1 ended by itself") != signature("I14", "scheduler ended by itself")
