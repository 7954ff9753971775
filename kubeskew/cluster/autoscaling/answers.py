"""Writes the answers of simulations as JSON."""

from typing import Any

from kubeskew.scheduler.autoscaling.scale_down import Removal
from kubeskew.scheduler.autoscaling.scale_up import Placement


def placement_json(answer: Placement) -> dict[str, Any]:
    """Returns `{templates, existing, unschedulable}`."""
    fresh = {node for nodes in answer.nodes.values() for node in nodes}
    placed = [{"pod": pod.key, "node": node} for pod, node in answer.placed.values()]
    return {
        "templates": [
            {
                "name": template,
                "nodes": len(nodes),
                "nodeNames": nodes,
                "pods": [entry for entry in placed if entry["node"] in set(nodes)],
            }
            for template, nodes in answer.nodes.items()
        ],
        "existing": [entry for entry in placed if entry["node"] not in fresh],
        "unschedulable": [{"pod": pod.key, "reasons": reasons} for pod, reasons in answer.rejected],
    }


def removal_json(answer: Removal) -> dict[str, Any]:
    """Returns `{node, removable, scaleDownDisabled, pods, withNode}`."""
    return {
        "node": answer.node,
        "removable": answer.possible,
        "scaleDownDisabled": answer.disabled,
        "pods": [
            *({"pod": pod.key, "node": node} for pod, node in answer.moved),
            *({"pod": pod.key, "reasons": [reason]} for pod, reason in answer.stuck),
        ],
        "withNode": [pod.key for pod in answer.with_node],
    }
