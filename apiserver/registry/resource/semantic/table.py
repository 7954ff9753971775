"""Makes the cells that `kubectl get` shows of NodeResourceSlices: a guess, after 1.30's ResourceSlice."""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def node_resource_slice(subject: Subject) -> Cells:
    return {"NodeName": subject.text("nodeName"), "DriverName": subject.text("driverName")}
