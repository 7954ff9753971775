"""Makes the cells that `kubectl get` shows of FlowSchema objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import NONE, Cells, Subject


def flow_schema(subject: Subject) -> Cells:
    return {
        "PriorityLevel": subject.text("spec", "priorityLevelConfiguration", "name"),
        "MatchingPrecedence": subject.number("spec", "matchingPrecedence"),
        "DistinguisherMethod": subject.text("spec", "distinguisherMethod", "type", default=NONE),
        "MissingPL": (subject.condition("Dangling") or {"status": "?"}).get("status", ""),
    }
