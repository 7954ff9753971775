"""Makes the objects that controllers would have made of manifests: pods of workloads, claims of templates."""

from collections.abc import Iterator

from kubeskew.apimachinery.client.refs import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Ref,
    dra_refs,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.cluster.autoscaling.manifests import Manifests
from kubeskew.cluster.failures import UserError
from kubeskew.controllers.daemonset.placement import belongs, pod_template
from kubeskew.controllers.framework.pod_control import pod_from_template
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.making import Owner, claim_from

_REPLICAS = {
    REPLICATION_CONTROLLERS: ("replicas", REPLICATION_CONTROLLERS),
    REPLICA_SETS: ("replicas", REPLICA_SETS),
    DEPLOYMENTS: ("replicas", REPLICA_SETS),  # whose pods belong to a ReplicaSet
    STATEFUL_SETS: ("replicas", STATEFUL_SETS),
    JOBS: ("parallelism", JOBS),
}


def complete(manifests: Manifests) -> None:
    """Adds the pods of workloads, and the claims of all pods. Raises UserError."""
    for ref, (field, owner_ref) in _REPLICAS.items():
        for obj in manifests.of(ref):
            if not _has_pods(manifests, obj):
                _add_pods(manifests, obj, int(obj["spec"].get(field) or 0), owner_ref)
    features = ResourceClaimFeatures.of(manifests.version, manifests.gates)
    for pod in manifests.of(PODS):
        _add_claims(manifests, pod, features)


def _has_pods(manifests: Manifests, obj: Object) -> bool:
    """Returns whether the files have pods of the workload, or what owns it is there itself."""
    uid = obj["metadata"]["uid"]
    if obj["metadata"].get("ownerReferences"):
        return True
    return any(
        reference.get("uid") == uid
        for pod in manifests.of(PODS)
        for reference in pod["metadata"].get("ownerReferences") or ()
    )


def _add_pods(manifests: Manifests, obj: Object, count: int, owner_ref: Ref) -> None:
    metadata = obj["metadata"]
    width = len(str(max(0, count - 1)))
    for number in range(count):
        pod = pod_from_template(obj["spec"].get("template") or {}, obj, owner_ref)
        about = {key: value for key, value in pod["metadata"].items() if key != "generateName"}
        name = f"{metadata['name']}-{number:0{width}}"
        about |= {"name": name, "namespace": metadata["namespace"]}
        manifests.add({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": about})


def _add_claims(manifests: Manifests, pod: Object, features: ResourceClaimFeatures) -> None:
    """Adds the claims that are still to be made of templates, and names them in the pod's status."""
    refs = dra_refs(manifests.version)
    known = {status["name"] for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    made = []
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry["name"] in known or not claims.has_template(entry, features):
            continue
        owner = Owner(PODS, pod)
        claim = claim_from(
            _template(manifests, pod, entry, features), owner, entry["name"], refs.claims, features
        )
        metadata = claim["metadata"]
        metadata["name"] = metadata.get("name") or f"{metadata.pop('generateName')}made"
        manifests.add(claim)
        made.append({"name": entry["name"], "resourceClaimName": metadata["name"]})
    if made and features.generated_names:
        status = pod.setdefault("status", {})
        status["resourceClaimStatuses"] = [*(status.get("resourceClaimStatuses") or ()), *made]


def _template(manifests: Manifests, pod: Object, entry: Object, features: ResourceClaimFeatures) -> Object:
    if features.inline_templates:
        inline: Object = entry["template"]
        return inline
    namespace, name = pod["metadata"]["namespace"], claims.template_name(entry, features)
    for template in manifests.of(dra_refs(manifests.version).claim_templates):
        if (template["metadata"]["namespace"], template["metadata"]["name"]) == (namespace, name):
            found: Object = template["spec"]
            return found
    raise UserError(
        f"pod {namespace}/{pod['metadata']['name']}: "
        f"there is no ResourceClaimTemplate {name} in its namespace"
    )


def daemon_pods(node: Object, daemon_sets: list[Object]) -> Iterator[Object]:
    """Yields the pods that DaemonSets would start on a new node like this one."""
    for daemon_set in daemon_sets:
        if belongs(daemon_set, node)[0]:
            pod = pod_from_template(pod_template(daemon_set, ""), daemon_set, DAEMON_SETS)
            metadata = daemon_set["metadata"]
            about = {**pod["metadata"], "name": metadata["name"], "namespace": metadata["namespace"]}
            yield {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": about}
