"""Reads whose slices a fictional node uses (KEP-4381 as drafted: Simulation with CA)."""

from kubeskew.apimachinery.objects import Object

NODE_RESOURCE_SLICES = "autoscaling.k8s.io/node-resource-slices"


def slices_node(node: Object | None) -> str:
    """Returns the name of the node whose slices the node uses; "" for real nodes, which use their own."""
    found = ((node or {}).get("metadata") or {}).get("annotations") or {}
    return str(found.get(NODE_RESOURCE_SLICES) or "")


def copied_name(name: str, node: str) -> str:
    """Returns what a slice or pool is called that a fictional node has from another one.

    No name of a node has a slash, so that no two copies get the same name.
    """
    return f"{name}/{node}"
