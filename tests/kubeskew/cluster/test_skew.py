"""The version skew policy and the order of changes."""

import pytest

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.skew import downgrade_order, upgrade_order, violations

COMPONENTS = ["kubelet/a", "scheduler", "apiserver-2", "controller-manager", "apiserver-1"]


def versions(**minors: int) -> dict[str, Version]:
    names = {
        "cm": "controller-manager",
        "kubelet": "kubelet/a",
        "server": "apiserver",
        "other": "apiserver-2",
    }
    return {names.get(name, name): Version(minor) for name, minor in minors.items()}


def test_upgrades_go_from_the_servers_to_the_kubelets():
    """An upgrade changes API servers, controller manager, scheduler, kubelets, in this order."""
    assert upgrade_order(COMPONENTS) == [
        "apiserver-2",
        "apiserver-1",
        "controller-manager",
        "scheduler",
        "kubelet/a",
    ]


def test_downgrades_go_in_reverse():
    """A downgrade changes what an upgrade changes, backwards."""
    assert downgrade_order(COMPONENTS) == upgrade_order(COMPONENTS)[::-1]


@pytest.mark.parametrize(
    "minors",
    [
        pytest.param({"server": 36, "cm": 36, "scheduler": 36, "kubelet": 36}, id="all alike"),
        pytest.param({"server": 36, "cm": 35, "scheduler": 35, "kubelet": 33}, id="as old as allowed"),
        pytest.param({"server": 35, "other": 36, "cm": 35, "kubelet": 35}, id="servers one apart"),
        pytest.param({"scheduler": 30}, id="no server to compare with"),
    ],
)
def test_supported_skew(minors: dict[str, int]):
    """A skew that upstream supports has no violation."""
    assert violations(versions(**minors)) == []


def test_previews_count_as_their_minor():
    """A component of a preview release is no newer than a server of the same minor."""
    preview = Version(29, "kep4381")
    assert violations({"apiserver": Version(29), "kubelet/a": preview, "scheduler": preview}) == []
    assert violations({"apiserver": Version(25, "kep3063"), "apiserver-2": Version(26)}) == []


@pytest.mark.parametrize(
    ("minors", "text"),
    [
        ({"server": 35, "cm": 36}, "controller-manager 1.36 is newer than the API server 1.35"),
        (
            {"server": 36, "scheduler": 34},
            "scheduler 1.34 is more than 1 minor older than the API server 1.36",
        ),
        (
            {"server": 36, "kubelet": 32},
            "kubelet/a 1.32 is more than 3 minors older than the API server 1.36",
        ),
        ({"server": 36, "other": 34}, "API servers at 1.34 and 1.36 are more than one minor apart"),
        ({"server": 35, "other": 36, "kubelet": 36}, "kubelet/a 1.36 is newer than the API server 1.35"),
    ],
)
def test_unsupported_skew(minors: dict[str, int], text: str):
    """A violation names the component, its version and the server's."""
    assert violations(versions(**minors)) == [text]
