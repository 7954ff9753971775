"""Makes the cells that `kubectl get` shows of DeviceTaintRule objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def device_taint_rule(subject: Subject) -> Cells:
    taint = ("spec", "taint")
    return {
        "Key": subject.text(*taint, "key"),
        "Value": subject.text(*taint, "value"),
        "Effect": subject.text(*taint, "effect"),
        "TimeAdded": subject.since(*taint, "timeAdded", default=""),
    }
