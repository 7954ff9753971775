"""Makes cells that several workloads share: how many pods are ready, and of how many."""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    containers,
    selector,
)


def pod_cells(subject: Subject) -> Cells:
    """Returns the cells that tell which pods a workload makes."""
    return {
        **containers(subject.at("spec", "template")),
        "Selector": selector(subject.at("spec", "selector")),
    }


def ready_replicas(subject: Subject) -> str:
    return f"{subject.number('status', 'readyReplicas')}/{subject.number('spec', 'replicas')}"
