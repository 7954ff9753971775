"""Endpoints among the slices of a service: which slices are made, changed and deleted."""

import pytest

from kubeskew.controllers.endpoints.port_hashes import fnv
from kubeskew.controllers.endpoints.slice_groups import MANAGER, SliceGroups, labels_of

SERVICE = {
    "metadata": {"name": "s", "namespace": "ns", "uid": "u", "labels": {"l": "m"}},
    "spec": {"clusterIP": "10.96.0.1"},
}
LABELS = {
    "l": "m",
    "kubernetes.io/service-name": "s",
    "endpointslice.kubernetes.io/managed-by": MANAGER,
}
OWNER = {"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "u"}
HTTP = {"name": "http", "port": 80, "protocol": "TCP"}
DNS = {"name": "dns", "port": 53, "protocol": "UDP"}


def endpoint(number, *, ready=True):
    reference = {"kind": "Pod", "namespace": "ns", "name": f"p{number}", "uid": f"u{number}"}
    return {
        "addresses": [f"10.0.{number // 250}.{number % 250}"],
        "conditions": {"ready": ready},
        "targetRef": reference,
    }


def slice_of(name, numbers, ports=(HTTP,), labels=LABELS, owner=OWNER):
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "addressType": "IPv4",
        "endpoints": [endpoint(number) for number in numbers],
        "ports": list(ports),
    }


def changes(present, wanted, ports=(HTTP,)):
    """Return the names, or *, and the numbers of endpoints of the slices to create, update and delete."""
    groups = SliceGroups(SERVICE, present, fnv)
    for one in wanted:
        groups.add(one if isinstance(one, dict) else endpoint(one), ports)
    made = groups.changes()
    return [
        [
            (
                each["metadata"].get("name", "*"),
                [int(end["targetRef"]["name"][1:]) for end in each["endpoints"]],
            )
            for each in slices
        ]
        for slices in (made.create, made.update, made.delete)
    ]


@pytest.mark.parametrize(
    ("present", "wanted", "expected"),
    [
        ([], [], [[("*", [])], [], []]),  # a slice that holds the place
        ([slice_of("a", [], ports=())], [], [[], [], []]),
        ([slice_of("a", [], ports=())], [1], [[], [("a", [1])], []]),
        ([slice_of("a", [1])], [], [[], [("a", [])], []]),
        ([slice_of("a", [1, 2])], [2], [[], [("a", [2])], []]),
        ([slice_of("a", [2])], [1, 2], [[], [("a", [2, 1])], []]),  # an endpoint stays where it is
        ([slice_of("a", [1])], [endpoint(1, ready=False)], [[], [("a", [1])], []]),
        ([slice_of("a", [1])], [1], [[], [], []]),
        ([slice_of("a", [1], labels={**LABELS, "l": "n"})], [1], [[], [("a", [1])], []]),
        (
            [slice_of("a", [1], labels={**LABELS, "service.kubernetes.io/headless": ""})],
            [1],
            [[], [], []],  # as labels of slices themselves are not compared
        ),
        ([slice_of("a", [1], ports=(DNS,))], [1], [[], [("a", [1])], []]),
        ([slice_of("a", [1], owner={**OWNER, "uid": "former"})], [1], [[("*", [1])], [], [("a", [1])]]),
        (
            [slice_of("a", range(98)), slice_of("b", range(100, 110))],
            [*range(98), *range(100, 110), 200],
            [[], [("a", [*range(98), 200])], []],  # the fullest that has room
        ),
        (
            [slice_of("a", range(98)), slice_of("b", range(100, 110))],
            [*range(98), *range(100, 109), 200],
            [[], [("b", [*range(100, 109), 200])], []],  # one that is written anyway
        ),
        ([slice_of("a", range(99))], range(101), [[("*", [99, 100])], [], []]),
    ],
)
def test_which_slices_are_written(present, wanted, expected):
    """Few slices are written; one that would go becomes one that would come."""
    assert changes(present, wanted) == expected


def test_endpoints_with_other_ports_are_apart():
    """Each set of ports has slices of its own, in whatever order they are listed."""
    groups = SliceGroups(SERVICE, [slice_of("a", [1], ports=(HTTP, DNS))], fnv)
    groups.add(endpoint(1), [DNS, HTTP])
    groups.add(endpoint(2), [HTTP])
    made = groups.changes()

    assert [each["ports"] for each in made.create] == [[HTTP]]
    assert (made.update, made.delete) == ([], [])


def test_labels_that_slices_use_are_not_taken_over():
    """A service with such labels of its own has slices with the right ones."""
    metadata = {**SERVICE["metadata"], "labels": {"l": "m", "service.kubernetes.io/headless": ""}}

    assert labels_of({**SERVICE, "metadata": metadata}) == LABELS
    headless = labels_of({**SERVICE, "spec": {"clusterIP": "None"}})
    assert headless == {**LABELS, "service.kubernetes.io/headless": ""}
