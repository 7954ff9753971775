"""Makes the cells that `kubectl get` shows of IngressClass objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    Cells,
    Subject,
    kind_name,
)

_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def ingress_class(subject: Subject) -> Cells:
    parameters = subject.at("spec", "parameters")
    default = subject.at("metadata", "annotations", _DEFAULT_CLASS) == "true"
    return {
        "Name": subject.text("metadata", "name") + (" (default)" if default else ""),
        "Controller": subject.text("spec", "controller"),
        "Parameters": _parameters(parameters) if parameters is not None else NONE,
    }


def _parameters(reference: Object) -> str:
    return (
        f"{kind_name(reference.get('kind', ''), reference.get('apiGroup') or '')}/{reference.get('name', '')}"
    )
