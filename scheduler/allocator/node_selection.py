"""Decides on which nodes a slice or a device is, by its `nodeName`, `allNodes` or `nodeSelector`."""

from collections.abc import Mapping

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.selectors.node_selectors import selector_matches
from kubeskew.scheduler.framework.node_selector_errors import selector_fault, selector_text


def on_node(selection: ObjectView, labels: Mapping[str, str], node: str) -> bool | None:
    """Returns whether `nodeName`, `allNodes` or `nodeSelector` of a slice or device selects the node.

    None if none of them is set.
    """
    if selection.get("nodeName"):
        return bool(selection["nodeName"] == node)
    if selection.get("allNodes"):
        return True
    if selection.get("nodeSelector") is not None:
        return selector_matches(selection["nodeSelector"], labels, node)
    return None


def fault_of(selection: ObjectView) -> str:
    """Returns the error of the `nodeSelector` of a slice or device, if that is the field that is used."""
    selector = selection.get("nodeSelector")
    if selector is None or selection.get("nodeName") or selection.get("allNodes"):
        return ""
    return selector_fault(selector)


def unread_selector(selector: ObjectView, fault: str) -> str:
    return f"failed to parse node selector {selector_text(selector)}: {fault}"
