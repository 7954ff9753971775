"""Makes the cells that `kubectl get` shows of PodTemplate objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    at,
    containers,
    labels,
)


def pod_template(subject: Subject) -> Cells:
    template = subject.at("template")
    return {**containers(template), "Pod Labels": labels(at(template, "metadata", "labels"))}
