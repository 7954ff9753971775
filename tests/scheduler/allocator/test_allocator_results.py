"""The allocator writes results into a claim."""

import pytest
from allocator_bench import DRIVER, TWO, a_claim, a_class, a_device, a_request, a_slice, allocate


@pytest.mark.parametrize(
    ("version", "requests"), [("1.31", [None, None]), ("1.36", [["r0", "r1"]]), ("1.37", [None])]
)
def test_class_config_in_the_result(version, requests):
    """One entry per request at first, later one per class that names its requests, last of all unnamed."""
    config = {"opaque": {"driver": DRIVER, "parameters": {}}}
    claim = a_claim(a_request("r0"), a_request("r1"))
    found = allocate([a_slice(TWO)], claim, version=version, classes=[a_class(config=[config])])

    assert [entry.get("requests") for entry in found[0]["devices"]["config"]] == requests


def test_claim_config_is_repeated_per_named_request():
    """Up to 1.36 a config that names two requests appears twice."""
    config = {"requests": ["r0", "r1"], "opaque": {"driver": DRIVER, "parameters": {}}}
    claim = a_claim(a_request("r0"), a_request("r1"), config=[config])

    assert allocate([a_slice(TWO)], claim)[0]["devices"]["config"] == [{"source": "FromClaim", **config}] * 2


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        pytest.param(
            {"nodeName": "node-1"},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
            id="node",
        ),
        pytest.param({"allNodes": True}, None, id="everywhere"),
        pytest.param(
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                }
            },
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            id="zone",
        ),
    ],
)
def test_node_selector_of_the_result(selection, expected):
    """The allocation can be used where its devices are."""
    found = allocate([a_slice(TWO, **selection)], a_claim(a_request()))

    assert found[0].get("nodeSelector") == (expected and {"nodeSelectorTerms": [expected]})


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        pytest.param({}, "In", id="incubating"),
        pytest.param(
            {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}, None, id="stable"
        ),
    ],
)
def test_device_that_binds_to_a_node(gates, expected):
    """A claim whose device binds to a node can be used there only; upstream's stable allocator does not know
    the field.
    """
    device = {**a_device("a"), "bindsToNode": True}
    found = allocate([a_slice([device], allNodes=True)], a_claim(a_request()), gates=gates)

    selector = found[0].get("nodeSelector")
    assert (selector and selector["nodeSelectorTerms"][0]["matchFields"][0]["operator"]) == expected
