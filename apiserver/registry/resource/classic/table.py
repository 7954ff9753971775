"""Makes the cells that `kubectl get` shows of ResourceClass objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject, kind_name


def resource_class(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}


def pod_scheduling_context(subject: Subject) -> Cells:
    return {"SelectedNode": subject.text("spec", "selectedNode")}


def generated_parameters(subject: Subject) -> Cells:
    """Returns what parameters were generated from, of claims and classes alike: `Kind.group name`."""
    source = subject.at("generatedFrom")
    if source is None:
        return {"GeneratedFrom": ""}
    kind = kind_name(source.get("kind", ""), source.get("apiGroup", ""))
    return {"GeneratedFrom": f"{kind} {source.get('name', '')}"}
