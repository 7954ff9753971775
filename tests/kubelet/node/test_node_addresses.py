import pytest

from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.node.object import initial_node


@pytest.mark.parametrize(
    ("given", "expected"),
    [("", {}), ("10.244.1.0/24", {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]})],
)
def test_addresses_of_pods(given: str, expected: dict) -> None:
    """A node whose pods have a network is registered with their addresses."""
    spec = initial_node(NodeConfig("node-1", pod_cidr=given), {})["spec"]
    assert {key: value for key, value in spec.items() if key != "taints"} == expected
