"""Decides on which nodes a daemon set's pods belong, and makes such a pod. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/daemon (NodeShouldRunDaemonPod) and daemon/util, 1.36.
"""

import copy

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.node_affinity import affinity_matches
from kubeskew.apimachinery.selectors.taints import tolerates
from kubeskew.controllers.framework.history import REVISION_LABEL

GENERATION_LABEL = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_NODE = "node.kubernetes.io/"
# Tolerations of every daemon's pod: (key, effect).
_TOLERATED = (
    (_NODE + "not-ready", "NoExecute"),
    (_NODE + "unreachable", "NoExecute"),
    (_NODE + "disk-pressure", "NoSchedule"),
    (_NODE + "memory-pressure", "NoSchedule"),
    (_NODE + "pid-pressure", "NoSchedule"),
    (_NODE + "unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = (_NODE + "network-unavailable", "NoSchedule")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def template_generation(daemon_set: Object) -> str:
    """Returns the server's count of templates; empty if the annotation is absent or no number."""
    text = str((daemon_set["metadata"].get("annotations") or {}).get(GENERATION_ANNOTATION, ""))
    return text if text.removeprefix("-").isdigit() else ""


def _tolerations(spec: Object) -> list[Object]:
    found = list(spec.get("tolerations") or ())
    wanted = [*_TOLERATED, *([_TOLERATED_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in found:
            found.append(toleration)
    return found


def pod_template(daemon_set: Object, text: str) -> Object:
    """Returns the template of new pods for any node; `text` is the hash of the present revision."""
    template = copy.deepcopy(daemon_set["spec"].get("template") or {})
    labels = template.setdefault("metadata", {}).get("labels") or {}
    template["metadata"]["labels"] = labels
    if generation := template_generation(daemon_set):
        labels[GENERATION_LABEL] = generation
    if text:
        labels[REVISION_LABEL] = text
    template.setdefault("spec", {})["tolerations"] = _tolerations(template["spec"])
    return template


def pinned(template: Object, node_name: str) -> Object:
    """Returns the template for one node: the default scheduler places it only there."""
    spec = dict(template["spec"])
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity["nodeAffinity"] = node_affinity
    return {**template, "spec": {**spec, "affinity": affinity}}


def target_node(pod: Object) -> str:
    """Returns the node that the pod runs on or is pinned to; empty if neither is known."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            values = field.get("values") or []
            if field["key"] == "metadata.name" and field["operator"] == "In" and len(values) == 1:
                return str(values[0])
    return ""


def belongs(daemon_set: Object, node: Object) -> tuple[bool, bool]:
    """Returns whether a pod (should start, may go on) on the node."""
    spec = (daemon_set["spec"].get("template") or {}).get("spec") or {}
    name = spec.get("nodeName")
    if (name and name != node["metadata"]["name"]) or not affinity_matches({"spec": spec}, node):
        return False, False
    tolerations = _tolerations(spec)
    refused = {
        taint.get("effect")
        for taint in node["spec"].get("taints") or ()
        if not any(tolerates(toleration, taint) for toleration in tolerations)
    }
    if refused & {"NoSchedule", "NoExecute"}:
        return False, "NoExecute" not in refused
    return True, True


def is_updated(pod: Object, text: str, generation: str) -> bool:
    """Returns whether the pod was made from the present template, by its hash or number."""
    labels = pod["metadata"].get("labels") or {}
    if generation and labels.get(GENERATION_LABEL) == generation:
        return True
    return bool(text) and labels.get(REVISION_LABEL) == text
