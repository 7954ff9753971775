"""Objects that read otherwise from an API server that has just started are found."""

from kubeskew.apimachinery.errors import GroupResource, not_found
from kubeskew.conformance.invariants.apiserver import ReadsAlike
from kubeskew.conformance.invariants.cluster import Cluster
from kubeskew.conformance.invariants.invariant import Evidence
from kubeskew.simulation.faults.outcome import read_differences

_LISTS = {"/api/v1": ["pods"], "/apis/example.com/v1": ["servers"]}


class _Server:
    """Answers discovery and lists; what it says of servers changes with its restart."""

    def __init__(self, before, after):
        self._items = before
        self._after = after

    async def request(self, method, path):
        if path == "/apis":
            versions = [{"groupVersion": "example.com/v1"}, {"groupVersion": "gone.example.com/v1"}]
            return {"groups": [{"versions": versions}]}
        if path in _LISTS:
            resources = [{"name": name, "verbs": ["get", "list"]} for name in _LISTS[path]]
            return {"resources": [*resources, {"name": f"{_LISTS[path][0]}/status", "verbs": ["get"]}]}
        if path.endswith("/servers"):
            return {"items": self._items}
        if path.endswith("/pods"):
            return {"items": [{"metadata": {"uid": "p", "resourceVersion": "1"}}]}
        raise not_found(GroupResource("", "lists"), path)

    async def restart(self):
        self._items = self._after


def _object(version, **spec):
    return {"metadata": {"uid": "u", "resourceVersion": version}, "spec": spec}


async def test_an_object_that_reads_otherwise_is_reported():
    """An object at the same revision with another field is a difference, one that was written is none."""
    server = _Server([_object("7", port=1)], [_object("7", port=1, access="deny")])
    (difference,) = await read_differences(server, server.restart)
    assert difference.startswith("/apis/example.com/v1/servers: object u at resourceVersion 7 read {")
    assert '"spec":{"port":1,"access":"deny"}} from a server' in difference
    for after in ([_object("7", port=1)], [_object("8", port=2)], []):
        server = _Server([_object("7", port=1)], after)
        assert await read_differences(server, server.restart) == []


def test_a_difference_breaks_the_invariant():
    """I25 says what read otherwise."""
    found = ReadsAlike().at_end(Cluster(), Evidence(rereads=["x: read a, and b"]), at_rest=False)
    assert [*found] == ["x: read a, and b"]
