"""The rows of services, their endpoints, and what networking.k8s.io has.

Source: pkg/printers/internalversion/printers.go.
"""

from types import MappingProxyType

from kubeskew.apimachinery.errors import GroupKind, Object
from kubeskew.apiserver.tables.subjects import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    CellTable,
    Subject,
    joined,
    kind_name,
    labels,
    selector,
    shortened,
)

_MOST_HOSTS = 3
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def service(subject: Subject) -> Cells:
    addresses = subject.items("spec", "clusterIPs")
    return {
        "Type": subject.text("spec", "type"),
        "Cluster-IP": addresses[0] if addresses else NONE,
        "External-IP": _external(subject),
        "Port(s)": joined([_port(one) for one in subject.items("spec", "ports")], NONE),
        "Selector": labels(subject.at("spec", "selector")),
    }


def endpoints(subject: Subject) -> Cells:
    subsets = subject.items("subsets")
    found = [
        _host_port(address.get("ip", ""), port)
        for subset in subsets
        for port in subset.get("ports") or [None]
        for address in subset.get("addresses") or ()
    ]
    return {"Endpoints": shortened(found) if subsets else NONE}


def endpoint_slice(subject: Subject) -> Cells:
    addresses = [one for endpoint in subject.items("endpoints") for one in endpoint.get("addresses") or ()]
    return {
        "AddressType": subject.text("addressType"),
        "Ports": shortened([_port_or_name(port) for port in subject.items("ports")]) or UNSET,
        "Endpoints": shortened(addresses) or UNSET,
    }


def ingress(subject: Subject) -> Cells:
    return {
        "Class": subject.text("spec", "ingressClassName", default=NONE),
        "Hosts": _hosts(subject.items("spec", "rules")),
        "Address": joined(_balancers(subject)),
        "Ports": "80, 443" if subject.count("spec", "tls") else "80",
    }


def ingress_class(subject: Subject) -> Cells:
    parameters = subject.at("spec", "parameters")
    default = subject.at("metadata", "annotations", _DEFAULT_CLASS) == "true"
    return {
        "Name": subject.text("metadata", "name") + (" (default)" if default else ""),
        "Controller": subject.text("spec", "controller"),
        "Parameters": _parameters(parameters) if parameters is not None else NONE,
    }


def network_policy(subject: Subject) -> Cells:
    return {"Pod-Selector": selector(subject.at("spec", "podSelector") or {})}


def service_cidr(subject: Subject) -> Cells:
    return {"CIDRs": joined(subject.items("spec", "cidrs"))}


def ip_address(subject: Subject) -> Cells:
    reference = subject.at("spec", "parentRef")
    if reference is None:
        return {"ParentRef": NONE}
    parts = [
        kind_name(reference.get("resource", ""), reference.get("group", "")).lower(),
        reference.get("namespace", ""),
        reference.get("name", ""),
    ]
    return {"ParentRef": "/".join(part for part in parts if part)}


def cluster_cidr(subject: Subject) -> Cells:
    return {
        "PerNodeHostBits": str(subject.number("spec", "perNodeHostBits")),
        "IPv4": subject.text("spec", "ipv4", default=NONE),
        "IPv6": subject.text("spec", "ipv6", default=NONE),
        "NodeSelector": _node_selector(subject.items("spec", "nodeSelector", "nodeSelectorTerms")),
    }


def _external(subject: Subject) -> str:
    addresses = subject.items("spec", "externalIPs")
    match subject.at("spec", "type"):
        case "ClusterIP" | "NodePort":
            return joined(addresses, NONE)
        case "LoadBalancer":
            return joined([*_balancers(subject), *addresses], "<pending>")
        case "ExternalName":
            return subject.text("spec", "externalName")
        case _:
            return UNKNOWN


def _balancers(subject: Subject) -> list[str]:
    """The addresses, else names, of the load balancers, sorted."""
    found = subject.items("status", "loadBalancer", "ingress")
    return sorted({one.get("ip") or one.get("hostname") or "" for one in found} - {""})


def _port(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"


def _port_or_name(port: Object) -> str:
    number, name = port.get("port"), port.get("name")
    if number is not None:
        return str(number)
    return "*" if name is None else str(name)


def _host_port(address: str, port: Object | None) -> str:
    if port is None:
        return address
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port.get('port', 0)}"


def _hosts(rules: list[Object]) -> str:
    """The first hosts. More rules are counted only if they come after the last host shown."""
    named = [(position, rule["host"]) for position, rule in enumerate(rules) if rule.get("host")]
    if not named:
        return "*"
    shown = named[:_MOST_HOSTS]
    text = ",".join(host for _, host in shown)
    if len(shown) == _MOST_HOSTS and len(rules) > shown[-1][0] + 1:
        return f"{text} + {len(rules) - _MOST_HOSTS} more..."
    return text


def _parameters(reference: Object) -> str:
    return (
        f"{kind_name(reference.get('kind', ''), reference.get('apiGroup') or '')}/{reference.get('name', '')}"
    )


def _node_selector(terms: list[Object]) -> str:
    """The terms' expressions as selector text (from memory)."""
    return joined(
        [selector({"matchExpressions": term.get("matchExpressions") or []}) for term in terms], NONE
    )


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("", "Endpoints"): endpoints,
        GroupKind("", "Service"): service,
        GroupKind("discovery.k8s.io", "EndpointSlice"): endpoint_slice,
        GroupKind("networking.k8s.io", "ClusterCIDR"): cluster_cidr,
        GroupKind("networking.k8s.io", "IPAddress"): ip_address,
        GroupKind("networking.k8s.io", "Ingress"): ingress,
        GroupKind("networking.k8s.io", "IngressClass"): ingress_class,
        GroupKind("networking.k8s.io", "NetworkPolicy"): network_policy,
        GroupKind("networking.k8s.io", "ServiceCIDR"): service_cidr,
    }
)
