"""ClusterCIDR: cells of tables."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, joined, selector


def cluster_cidr_cells(subject: Subject) -> Cells:
    return {
        "PerNodeHostBits": str(subject.number("spec", "perNodeHostBits")),
        "IPv4": subject.text("spec", "ipv4", default=NONE),
        "IPv6": subject.text("spec", "ipv6", default=NONE),
        "NodeSelector": _node_selector(subject.items("spec", "nodeSelector", "nodeSelectorTerms")),
    }


def _node_selector(terms: list[Object]) -> str:
    """Expressions become the text of a selector (from memory)."""
    return joined(
        [selector({"matchExpressions": term.get("matchExpressions") or []}) for term in terms], NONE
    )
