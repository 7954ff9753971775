"""Reads what drivers and runtimes of a cluster's nodes recorded, from files: they may be dead."""

from collections.abc import Iterator
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, NodeRecords
from kubeskew.kubelet.containers import event_log
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.drivers import call_log
from kubeskew.kubelet.node.layout import NodeLayout


def node_records(directory: StateDir) -> NodeRecords:
    """Returns the records of all nodes, also of those that are gone, oldest first."""
    root = directory.kubelet_root()
    nodes = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    calls = [call for node in nodes for call in _calls(root, node)]
    events = [event for node in nodes for event in _events(root, node)]
    return NodeRecords(sorted(calls, key=_time), sorted(events, key=_time))


def _time(entry: DriverCall | ContainerEvent) -> str:
    return entry.time


def _calls(root: Path, node: str) -> Iterator[DriverCall]:
    plugins = NodeLayout.under(root, node).plugin("")
    for path in sorted(plugins.rglob(call_log.FILE_NAME)):
        driver = str(path.parent.relative_to(plugins))
        for entry in Journal(path).entries():
            for claim in entry["claims"]:
                yield _call(node, driver, entry, claim)


def _call(node: str, driver: str, entry: Object, claim: Object) -> DriverCall:
    named = (claim["namespace"], claim["name"], claim["uid"])
    return DriverCall(entry["time"], node, driver, entry["call"], *named, claim["error"] or entry["error"])


def _events(root: Path, node: str) -> Iterator[ContainerEvent]:
    for entry in Journal(NodeLayout.under(root, node).runtime / event_log.FILE_NAME).entries():
        yield ContainerEvent(
            *(entry["time"], node, entry["podUID"], entry["container"], entry["id"], entry["event"]),
            tuple(entry["cdiDevices"]),
        )
