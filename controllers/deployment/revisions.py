"""Finds the replica set of a deployment's present template, and counts revisions in annotations.

Behaviour of k8s.io/kubernetes/pkg/controller/deployment/util, 1.36.
"""

from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.client.refs import DEPLOYMENTS, REPLICA_SETS
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.deployment.arithmetic import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    annotated,
    by_age,
    max_surge,
    new_set_size,
    replicas,
)
from kubeskew.controllers.framework.hashing import template_hash
from kubeskew.controllers.framework.owner_references import new_controller_reference

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
_HISTORY_CHARACTERS = 2000
_NAME_CHARACTERS = 253
_NOT_COPIED = {
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
}


def same_template(one: Object, other: Object) -> bool:
    """Returns whether templates are equal except for the hash label."""
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    labels = {
        name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != HASH_LABEL
    }
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": {**metadata, "labels": labels}}


def split(deployment: Object, sets: Iterable[Object]) -> tuple[Object | None, list[Object]]:
    """Returns the replica set of the present template, and the others.

    If several have that template, the oldest counts as new: any choice works if it is always the same.
    """
    template = deployment["spec"]["template"]
    new = None
    ordered = by_age(sets)
    for replica_set in ordered:
        if same_template(replica_set["spec"]["template"], template):
            new = replica_set
            break
    return new, [replica_set for replica_set in ordered if replica_set is not new]


def revision(obj: Object) -> int:
    return annotated(obj, REVISION) or 0


def next_revision(old: Sequence[Object]) -> int:
    return max((revision(replica_set) for replica_set in old), default=0) + 1


def copied_annotations(deployment: Object) -> dict[str, str]:
    """Returns the deployment's annotations that are copied to its replica sets."""
    annotations = deployment["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in _NOT_COPIED}


def size_annotations(deployment: Object) -> dict[str, str]:
    """Returns the annotations with the deployment's size, for proportional scaling."""
    wanted = replicas(deployment)
    return {DESIRED_REPLICAS: str(wanted), MAX_REPLICAS: str(wanted + max_surge(deployment))}


def annotations_of_new(deployment: Object, new: Object, number: int) -> dict[str, str]:
    """Returns the annotations of the new replica set at revision `number`.

    An existing one that is rolled back to keeps its former revisions as history.
    """
    annotations = {**(new["metadata"].get("annotations") or {}), **copied_annotations(deployment)}
    former_text = annotations.get(REVISION)
    former = annotated(new, REVISION) or 0
    if former >= number:
        return annotations
    annotations[REVISION] = str(number)
    if former_text is not None:
        history = [text for text in annotations.get(REVISION_HISTORY, "").split(",") if text]
        history.append(former_text)
        while len(",".join(history)) > _HISTORY_CHARACTERS:
            history.pop(0)
        annotations[REVISION_HISTORY] = ",".join(history)
    return annotations


def new_replica_set(
    deployment: Object, old: Sequence[Object], number: int, *, names_too_long: bool
) -> Object:
    """Returns the replica set to create for the deployment's template."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    text = template_hash(spec["template"], (deployment.get("status") or {}).get("collisionCount"))
    name = metadata["name"]
    if not names_too_long:
        name = name[: _NAME_CHARACTERS - len(text) - 1]
    template_metadata = dict(spec["template"].get("metadata") or {})
    labels = {**(template_metadata.get("labels") or {}), HASH_LABEL: text}
    selector = dict(spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: text}
    new: Object = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{name}-{text}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [new_controller_reference(deployment, DEPLOYMENTS)],
        },
        "spec": {
            "replicas": 0,
            "selector": selector,
            "template": {**spec["template"], "metadata": {**template_metadata, "labels": labels}},
        },
    }
    if spec.get("minReadySeconds"):
        new["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    new["spec"]["replicas"] = new_set_size(deployment, [*old, new], new)
    new["metadata"]["annotations"] = annotations_of_new(deployment, new, number) | size_annotations(
        deployment
    )
    return new


def to_clean_up(deployment: Object, old: Sequence[Object]) -> list[Object]:
    """Returns the old replica sets beyond the history limit that have no replicas, oldest revisions first."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == 2**31 - 1:
        return []
    alive = [replica_set for replica_set in old if not replica_set["metadata"].get("deletionTimestamp")]
    excess = len(alive) - limit
    if excess <= 0:
        return []
    ordered = sorted(by_age(alive), key=revision)
    return [replica_set for replica_set in ordered[:excess] if _is_done(replica_set)]


def _is_done(one: Object) -> bool:
    status = one.get("status") or {}
    return (
        not status.get("replicas")
        and replicas(one) == 0
        and one["metadata"].get("generation", 0) <= (status.get("observedGeneration") or 0)
    )
