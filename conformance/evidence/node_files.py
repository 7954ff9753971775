"""Reads the records of drivers and runtimes from files of the cluster: the processes may be dead."""

from collections.abc import Iterator
from heapq import merge
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, InjectedDevice, NodeRecords
from kubeskew.kubelet.containers import event_log
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.drivers import claims
from kubeskew.kubelet.node.config import NodeLayout


def node_records(directory: StateDir) -> NodeRecords:
    """Nodes that are gone count, too; records come oldest first."""
    root = directory.kubelet_root()
    nodes = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    calls = [_calls(node, driver, path) for node in nodes for driver, path in _call_logs(root, node)]
    events = [_events(root, node) for node in nodes]
    # Those of one file stay in their order: a node's clock may have gone back.
    exits = [sorted(_exits(root, node), key=_time) for node in nodes]
    return NodeRecords([*merge(*calls, key=_time)], [*merge(*events, *exits, key=_time)])


def _time(entry: DriverCall | ContainerEvent) -> str:
    return entry.time


def _call_logs(root: Path, node: str) -> list[tuple[str, Path]]:
    plugins = NodeLayout.under(root, node).plugin("")
    paths = sorted(plugins.rglob(claims.CALL_LOG))
    return [(str(path.parent.relative_to(plugins)), path) for path in paths]


def _calls(node: str, driver: str, path: Path) -> Iterator[DriverCall]:
    for entry in Journal(path).entries():
        for claim in entry["claims"]:
            yield _call(node, driver, entry, claim)


def _call(node: str, driver: str, entry: Object, claim: Object) -> DriverCall:
    named = (claim["namespace"], claim["name"], claim["uid"])
    error = claim["error"] or entry["error"]
    return DriverCall(entry["time"], node, driver, entry["call"], *named, error, claim["devices"])


def _exits(root: Path, node: str) -> Iterator[ContainerEvent]:
    """Ends that were known when their containers began, and before which nobody stopped them."""
    known: dict[str, ContainerEvent] = {}
    for entry in Journal(NodeLayout.under(root, node).runtime / event_log.FILE_NAME).entries():
        if entry["event"] != event_log.STARTED:
            known.pop(entry["id"], None)
        elif entry["endsAt"] is not None:
            named = (entry["endsAt"], node, entry["podUID"], entry["container"], entry["id"])
            known[entry["id"]] = ContainerEvent(*named, event_log.EXITED, tuple(entry["cdiDevices"]))
    yield from known.values()


def _events(root: Path, node: str) -> Iterator[ContainerEvent]:
    for entry in Journal(NodeLayout.under(root, node).runtime / event_log.FILE_NAME).entries():
        yield ContainerEvent(
            *(entry["time"], node, entry["podUID"], entry["container"], entry["id"], entry["event"]),
            tuple(entry["cdiDevices"]),
            [InjectedDevice(each["name"], each["env"]) for each in entry.get("injected", ())],
            entry.get("env", {}),
        )
