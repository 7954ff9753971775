"""The identity of a pod of a stateful set: ordinal, names, labels, volumes. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/statefulset/stateful_set_utils.go, 1.36.
"""

import re
from collections.abc import Mapping

from kubeskew.apimachinery.client.refs import STATEFUL_SETS
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.history import REVISION_LABEL
from kubeskew.controllers.framework.pod_control import pod_from_template

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_PARENT = re.compile(r"(.*)-([0-9]+)\Z", re.DOTALL)


def parent_and_ordinal(pod: Object) -> tuple[str, int]:
    """Returns the set's name and the ordinal; ("", -1) if the name has another form."""
    found = _PARENT.match(pod["metadata"]["name"])
    if found is None or int(found[2]) >= 2**31:
        return "", -1
    return found[1], int(found[2])


def ordinal(pod: Object) -> int:
    return parent_and_ordinal(pod)[1]


def is_member(stateful_set: Object, pod: Object) -> bool:
    return bool(parent_and_ordinal(pod)[0] == stateful_set["metadata"]["name"])


def start(stateful_set: Object) -> int:
    return int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)


def replicas(stateful_set: Object) -> int:
    count = stateful_set["spec"].get("replicas")
    return 1 if count is None else int(count)


def in_range(stateful_set: Object, pod: Object) -> bool:
    first = start(stateful_set)
    return first <= ordinal(pod) < first + replicas(stateful_set)


def pod_name(stateful_set: Object, number: int) -> str:
    return f"{stateful_set['metadata']['name']}-{number}"


def claims_of(stateful_set: Object, number: int) -> dict[str, Object]:
    """Returns the claims of the pod with that ordinal, by the name of their template."""
    spec, metadata = stateful_set["spec"], stateful_set["metadata"]
    found = {}
    for template in spec.get("volumeClaimTemplates") or ():
        name = template["metadata"]["name"]
        labels = {
            **(template["metadata"].get("labels") or {}),
            **((spec.get("selector") or {}).get("matchLabels") or {}),
        }
        claim_metadata = {key: value for key, value in template["metadata"].items() if value is not None}
        found[name] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **claim_metadata,
                "name": f"{name}-{metadata['name']}-{number}",
                "namespace": metadata["namespace"],
                "labels": labels,
            },
            "spec": template.get("spec") or {},
        }
    return found


def new_pod(stateful_set: Object, number: int, revision: str, *, index_label: bool = True) -> Object:
    """Returns the pod to create for an ordinal: template, identity, claims; `revision` is a revision's
    name."""
    pod = pod_from_template(stateful_set["spec"].get("template") or {}, stateful_set, STATEFUL_SETS)
    pod["spec"] = dict(pod["spec"])
    pod["metadata"]["name"] = pod_name(stateful_set, number)
    pod["spec"]["hostname"] = pod["metadata"]["name"]
    if service := stateful_set["spec"].get("serviceName"):
        pod["spec"]["subdomain"] = service
    set_identity(pod, index_label=index_label)
    set_storage(stateful_set, pod)
    pod["metadata"]["labels"][REVISION_LABEL] = revision
    return pod


def _identity_labels(pod: Object, *, index_label: bool) -> dict[str, str]:
    labels = {POD_NAME_LABEL: pod["metadata"]["name"]}
    if index_label:
        labels[POD_INDEX_LABEL] = str(ordinal(pod))
    return labels


def identity_matches(stateful_set: Object, pod: Object, *, index_label: bool = True) -> bool:
    labels = pod["metadata"].get("labels") or {}
    wanted = _identity_labels(pod, index_label=index_label)
    return (
        is_member(stateful_set, pod)
        and labels.get(POD_NAME_LABEL) == wanted[POD_NAME_LABEL]
        and (not index_label or labels.get(POD_INDEX_LABEL) == wanted[POD_INDEX_LABEL])
    )


def set_identity(pod: Object, *, index_label: bool = True) -> None:
    labels = pod["metadata"].get("labels") or {}
    pod["metadata"]["labels"] = {**labels, **_identity_labels(pod, index_label=index_label)}


def storage_matches(stateful_set: Object, pod: Object) -> bool:
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return all(
        (volumes.get(name, {}).get("persistentVolumeClaim") or {}).get("claimName")
        == claim["metadata"]["name"]
        for name, claim in claims_of(stateful_set, ordinal(pod)).items()
    )


def set_storage(stateful_set: Object, pod: Object) -> None:
    """Sets the volumes of the claims; others with the same names are replaced."""
    claims = claims_of(stateful_set, ordinal(pod))
    volumes: list[Object] = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for name, claim in claims.items()
    ]
    volumes += [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in claims]
    if volumes:
        pod["spec"]["volumes"] = volumes


def revision_of(pod: Object) -> str:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(REVISION_LABEL) or ""


def is_created(pod: Object) -> bool:
    """Returns whether the pod is stored, not only planned."""
    return bool(pod["metadata"].get("uid"))


def is_running_and_ready(pod: Object) -> bool:
    return pods.phase(pod) == "Running" and pods.is_ready(pod)


def bursts(stateful_set: Object) -> bool:
    """Returns whether pods are created and deleted in parallel."""
    return bool(stateful_set["spec"].get("podManagementPolicy") == "Parallel")
