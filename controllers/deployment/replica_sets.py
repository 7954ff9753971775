"""The replica sets of a deployment: their sizes, the one of the present template, and revisions in
annotations. Pure functions.

Source: k8s.io/kubernetes/pkg/controller/deployment/util, 1.36.
"""

import math
from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.client.refs import DEPLOYMENTS, REPLICA_SETS
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.history import template_hash
from kubeskew.controllers.framework.owner_references import new_controller_reference
from kubeskew.controllers.framework.pod_control import scaled

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"


def replicas(obj: Object) -> int:
    count = obj["spec"].get("replicas")
    return 1 if count is None else int(count)


def total(sets: Iterable[Object]) -> int:
    return sum(replicas(replica_set) for replica_set in sets)


def reported(sets: Iterable[Object | None], name: str) -> int:
    """Sums a status field; absent replica sets count as 0."""
    return sum(
        (replica_set.get("status") or {}).get(name) or 0 for replica_set in sets if replica_set is not None
    )


def active(sets: Iterable[Object | None]) -> list[Object]:
    return [replica_set for replica_set in sets if replica_set is not None and replicas(replica_set) > 0]


def by_age(sets: Iterable[Object]) -> list[Object]:
    """Oldest first, then by name."""
    return sorted(
        sets,
        key=lambda replica_set: (
            replica_set["metadata"]["creationTimestamp"],
            replica_set["metadata"]["name"],
        ),
    )


def by_size(sets: Iterable[Object], *, newer_first: bool) -> list[Object]:
    """The largest comes first; among equals the newer or the older one."""
    sign = -1 if newer_first else 1

    def rank(replica_set: Object) -> tuple[int, float, str]:
        created = parse_timestamp(replica_set["metadata"]["creationTimestamp"]).timestamp()
        return -replicas(replica_set), sign * created, replica_set["metadata"]["name"]

    return sorted(sets, key=rank)


def _rolling(deployment: Object) -> Object | None:
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return None
    return strategy.get("rollingUpdate") or {"maxSurge": "25%", "maxUnavailable": "25%"}


def is_rolling(deployment: Object) -> bool:
    return _rolling(deployment) is not None


def max_surge(deployment: Object) -> int:
    rolling = _rolling(deployment)
    return 0 if rolling is None else scaled(rolling.get("maxSurge"), replicas(deployment), round_up=True)


def max_unavailable(deployment: Object) -> int:
    rolling, wanted = _rolling(deployment), replicas(deployment)
    if rolling is None or wanted == 0:
        return 0
    missing = scaled(rolling.get("maxUnavailable"), wanted, round_up=False)
    if missing == 0 and max_surge(deployment) == 0:
        # Both 0 would be a deadlock: validation forbids it, rounding may yield it.
        missing = 1
    return min(missing, wanted)


def new_set_size(deployment: Object, sets: Sequence[Object], new: Object) -> int:
    """`sets` are all replica sets, the new one included."""
    wanted = replicas(deployment)
    if not is_rolling(deployment):
        return wanted
    room = wanted + max_surge(deployment) - total(sets)
    if room <= 0:
        return replicas(new)
    return replicas(new) + min(room, wanted - replicas(new))


def unhealthy_cuts(deployment: Object, old: Sequence[Object], new: Object) -> dict[str, int]:
    """Old replica sets lose replicas that are not available anyway."""
    left = _may_remove(deployment, old, new)
    sizes: dict[str, int] = {}
    for replica_set in by_age(old):
        size, available = replicas(replica_set), reported([replica_set], "availableReplicas")
        cut = min(left, size - available)
        if cut > 0:
            sizes[replica_set["metadata"]["name"]] = size - cut
            left -= cut
    return sizes


def _may_remove(deployment: Object, old: Sequence[Object], new: Object) -> int:
    """Enough replicas stay even if no unavailable new one ever starts."""
    minimum = replicas(deployment) - max_unavailable(deployment)
    starting = replicas(new) - reported([new], "availableReplicas")
    return total([*old, new]) - minimum - starting


def may_scale_down(deployment: Object, old: Sequence[Object], new: Object) -> bool:
    return total(old) > 0 and _may_remove(deployment, old, new) > 0


def rolling_cuts(deployment: Object, old: Sequence[Object], new: Object) -> dict[str, int]:
    minimum = replicas(deployment) - max_unavailable(deployment)
    left = reported([*old, new], "availableReplicas") - minimum
    sizes: dict[str, int] = {}
    for replica_set in by_age(old):
        cut = min(left, replicas(replica_set))
        if cut > 0:
            sizes[replica_set["metadata"]["name"]] = replicas(replica_set) - cut
            left -= cut
    return sizes


def proportional_sizes(deployment: Object, sets: Sequence[Object]) -> dict[str, int]:
    """During a rollout each active set changes in proportion to its size."""
    wanted = replicas(deployment)
    allowed = wanted + max_surge(deployment) if wanted > 0 else 0
    change = allowed - total(sets)
    ordered = by_size(sets, newer_first=change > 0) if change else list(sets)
    sizes: dict[str, int] = {}
    added = 0
    for replica_set in ordered:
        share = _share(replica_set, deployment, change, added)
        sizes[replica_set["metadata"]["name"]] = replicas(replica_set) + share
        added += share
    if change and ordered:
        first = ordered[0]["metadata"]["name"]
        sizes[first] = max(0, sizes[first] + change - added)
    return sizes


def _share(replica_set: Object, deployment: Object, change: int, added: int) -> int:
    if replicas(replica_set) == 0 or change in (0, added):
        return 0
    fraction, allowed = _fraction(replica_set, deployment), change - added
    return min(fraction, allowed) if change > 0 else max(fraction, allowed)


def _fraction(replica_set: Object, deployment: Object) -> int:
    wanted = replicas(deployment)
    if wanted == 0:
        return -replicas(replica_set)
    before = annotated(replica_set, MAX_REPLICAS) or (deployment.get("status") or {}).get("replicas") or 0
    if not before:
        return 0
    exact = replicas(replica_set) * (wanted + max_surge(deployment)) / before
    return math.floor(exact + 0.5) - replicas(replica_set)


def annotated(replica_set: Object, name: str) -> int | None:
    """None unless the annotation is a number."""
    text = (replica_set["metadata"].get("annotations") or {}).get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None


def active_or_latest(new: Object | None, old: Sequence[Object]) -> Object | None:
    """Prefers the only active replica set, and the newest if none is active; None if several are."""
    if new is None and not old:
        return None
    found = active([*old, new])
    if not found:
        return new if new is not None else by_age(old)[-1]
    return found[0] if len(found) == 1 else None


def is_saturated(deployment: Object, replica_set: Object | None) -> bool:
    if replica_set is None:
        return False
    wanted = replicas(deployment)
    return (
        replicas(replica_set) == wanted
        and annotated(replica_set, DESIRED_REPLICAS) == wanted
        and reported([replica_set], "availableReplicas") == wanted
    )


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
    return _without_hash(one) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    metadata = dict(template.get("metadata") or {})
    labels = {
        name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != HASH_LABEL
    }
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": {**metadata, "labels": labels}}


def split(deployment: Object, sets: Iterable[Object]) -> tuple[Object | None, list[Object]]:
    """The pair is (replica set of the present template, others by age).

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
    annotations = deployment["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in _NOT_COPIED}


def size_annotations(deployment: Object) -> dict[str, str]:
    """Proportional scaling reads the deployment's size from these annotations."""
    wanted = replicas(deployment)
    return {DESIRED_REPLICAS: str(wanted), MAX_REPLICAS: str(wanted + max_surge(deployment))}


def annotations_of_new(deployment: Object, new: Object, number: int) -> dict[str, str]:
    """`number` is the revision.

    A replica set that is rolled back to keeps its former revisions as history.
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
    """Replica sets with replicas stay; the oldest revisions beyond the history limit go first."""
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
