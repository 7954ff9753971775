"""Makes the cells that `kubectl get` shows of Service objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.balancers import load_balancers
from kubeskew.apiserver.registry.tables.subjects import (
    NONE,
    UNKNOWN,
    Cells,
    Subject,
    joined,
    labels,
)


def service(subject: Subject) -> Cells:
    addresses = subject.items("spec", "clusterIPs")
    return {
        "Type": subject.text("spec", "type"),
        "Cluster-IP": addresses[0] if addresses else NONE,
        "External-IP": _external(subject),
        "Port(s)": joined([_port(port) for port in subject.items("spec", "ports")], NONE),
        "Selector": labels(subject.at("spec", "selector")),
    }


def _external(subject: Subject) -> str:
    addresses = subject.items("spec", "externalIPs")
    match subject.at("spec", "type"):
        case "ClusterIP" | "NodePort":
            return joined(addresses, NONE)
        case "LoadBalancer":
            return joined([*load_balancers(subject), *addresses], "<pending>")
        case "ExternalName":
            return subject.text("spec", "externalName")
        case _:
            return UNKNOWN


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"
