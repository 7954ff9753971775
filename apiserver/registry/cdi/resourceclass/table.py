"""Makes the cells that `kubectl get` shows of ResourceClass objects of cdi.k8s.io."""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def resource_class(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}
