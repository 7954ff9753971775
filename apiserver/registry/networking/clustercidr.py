"""ClusterCIDR: cells of tables."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject


def cluster_cidr_cells(subject: Subject) -> Cells:
    return {
        "PerNodeHostBits": str(subject.number("spec", "perNodeHostBits")),
        "IPv4": subject.text("spec", "ipv4", default=NONE),
        "IPv6": subject.text("spec", "ipv6", default=NONE),
        "NodeSelector": _node_selector(subject.items("spec", "nodeSelector", "nodeSelectorTerms"))
        if subject.at("spec", "nodeSelector") is not None
        else NONE,
    }


def _node_selector(terms: list[Object]) -> str:
    """Expressions are shown as Go prints them (pkg/printers/internalversion, 1.28)."""
    shown = [
        f"{name[0].upper()}{name[1:]}: [{' '.join(map(_requirement, term[name]))}]"
        for term in terms
        for name in ("matchExpressions", "matchFields")
        if term.get(name)
    ]
    return ",".join(shown)


def _requirement(requirement: Object) -> str:
    values = " ".join(requirement.get("values") or ())
    return f"{{{requirement.get('key') or ''} {requirement.get('operator') or ''} [{values}]}}"
