"""Judges deletions: I03 deletion-completes, I16 right-owner, I18 uid-not-name."""

from collections.abc import Iterable, Iterator

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.conformance.evidence.aspects import claim_names
from kubeskew.conformance.evidence.log import uid_of
from kubeskew.conformance.invariants.cluster import Change, Cluster, controller, is_deleting, named
from kubeskew.conformance.invariants.controllers import JOB_TRACKING
from kubeskew.conformance.invariants.devices import CLAIMS
from kubeskew.conformance.invariants.invariant import Evidence, LivenessInvariant, SafetyInvariant

_COLLECTOR = "generic-garbage-collector"
_PVC_PROTECTION = "kubernetes.io/pvc-protection"
_PV_PROTECTION = "kubernetes.io/pv-protection"
_CLAIM_PROTECTION = "resource.kubernetes.io/delete-protection"


class DeletionCompletes(LivenessInvariant):
    """I03: what is being deleted goes once its users are gone."""

    code = "I03"
    name = "deletion-completes"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or not cluster.running("controller-manager"):
            return
        for resource in sorted(cluster.objects):
            for obj in cluster.all(resource):
                if is_deleting(obj) and (reason := _stuck(resource, obj, cluster)):
                    yield f"{named(obj)} is being deleted and stays: {reason}"


def _stuck(resource: str, obj: ObjectView, cluster: Cluster) -> str:
    """Gives the reason that nothing holds the object any more; it is empty if something may hold it."""
    finalizers = obj["metadata"].get("finalizers") or []
    name = obj["metadata"]["name"]
    if resource == "pods" and not finalizers:
        node = (obj.get("spec") or {}).get("nodeName") or ""
        if node and cluster.get("nodes", "", node) is not None and not cluster.up(f"kubelet/{node}"):
            return ""
        return f"the kubelet of {node} runs" if node else "it has no node"
    if resource == "namespaces":
        if any(namespace_ == name for objects in cluster.objects.values() for namespace_, _ in objects):
            return ""
        return (
            "there is nothing in it"
            if (obj.get("spec") or {}).get("finalizers") in ([], ["kubernetes"], None)
            else ""
        )
    reasons = [_unused(resource, finalizer, obj, cluster) for finalizer in finalizers]
    return "; ".join(reasons) if reasons and all(reasons) else ""


def _unused(resource: str, finalizer: str, obj: ObjectView, cluster: Cluster) -> str:
    """Gives the reason that a finalizer of Kubernetes should be gone; it is empty if it is another's, or
    still needed."""
    namespace, name = obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
    pods = [pod for pod in cluster.all("pods") if pod["metadata"].get("namespace") == namespace]
    if resource == CLAIMS and finalizer == _CLAIM_PROTECTION and not reserved_for(obj):
        users = [
            pod
            for pod in pods
            if name in claim_names(pod) and not is_terminal(pod) and (pod.get("spec") or {}).get("nodeName")
        ]
        return "" if users else "the claim is reserved for nobody"
    if finalizer == _PVC_PROTECTION:
        return "" if any(_mounts(pod, name) for pod in pods if not is_terminal(pod)) else "no pod uses it"
    if finalizer == _PV_PROTECTION:
        return "" if (obj.get("status") or {}).get("phase") == "Bound" else "it is not bound"
    if finalizer == JOB_TRACKING:
        owner = controller(obj)
        return "" if _by_uid(cluster, "jobs.batch", str(owner.get("uid"))) else "its Job is gone"
    if finalizer == "foregroundDeletion":
        uid = uid_of(obj)
        blocked = any(
            reference.get("uid") == uid and reference.get("blockOwnerDeletion")
            for objects in cluster.objects.values()
            for each in objects.values()
            for reference in each["metadata"].get("ownerReferences") or ()
        )
        return "" if blocked else "nothing that it owns blocks it"
    return ""


def _mounts(pod: ObjectView, claim: str) -> bool:
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim
        for volume in (pod.get("spec") or {}).get("volumes") or []
    )


def _by_uid(cluster: Cluster, resource: str, uid: str) -> ObjectView | None:
    return next((obj for obj in cluster.all(resource) if uid_of(obj) == uid), None)


class RightOwner(SafetyInvariant):
    """I16: the garbage collector deletes only objects whose owners are really absent."""

    code = "I16"
    name = "right-owner"

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        if not change.write.user.endswith(f":{_COLLECTOR}"):
            return
        before, now = change.before, change.now
        marked = now is not None and is_deleting(now) and before is not None and not is_deleting(before)
        if not (marked or (now is None and before is not None and not is_deleting(before))):
            return
        for reference in (before or {}).get("metadata", {}).get("ownerReferences") or ():
            owner = self._owner(str(reference.get("uid")), change, cluster)
            if owner is not None and not is_deleting(owner):
                yield f"{change.text} was collected although its owner {named(owner)} is there"

    def _owner(self, uid: str, change: Change, cluster: Cluster) -> ObjectView | None:
        namespace = change.write.namespace
        for resource in sorted(cluster.objects):
            for (place, _), obj in cluster.objects[resource].items():
                if place in {namespace, ""} and uid_of(obj) == uid:
                    return obj
        return None


class UidNotName(LivenessInvariant):
    """I18: what was noted for an object is not used for another one of the same name."""

    code = "I18"
    name = "uid-not-name"

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        """Reports pods that took a claim which was made for an earlier pod of the same name."""
        if change.write.resource != "pods" or change.now is None:
            return
        pod, namespace = change.now, change.write.namespace
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or []:
            if status in ((change.before or {}).get("status") or {}).get("resourceClaimStatuses", []):
                continue
            claim = cluster.get(CLAIMS, namespace, status.get("resourceClaimName") or "")
            owner = controller(claim) if claim is not None else {}
            if owner.get("kind") == "Pod" and owner.get("uid") != uid_of(pod):
                yield f"{change.text} uses {named(claim or {})}, which was made for another pod"

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or not cluster.running("controller-manager"):
            return
        for claim in cluster.all(CLAIMS):
            for consumer in reserved_for(claim):
                pod = cluster.get("pods", claim["metadata"]["namespace"], str(consumer.get("name")))
                if pod is not None and uid_of(pod) != consumer.get("uid"):
                    yield f"{named(claim)} is reserved for a former {named(pod)} (uid {consumer.get('uid')})"
        yield from _bound_to_former(cluster)


def _bound_to_former(cluster: Cluster) -> Iterator[str]:
    """Reports volumes that are bound to a claim that is gone, whose name another one has."""
    for volume in cluster.all("persistentvolumes"):
        reference = (volume.get("spec") or {}).get("claimRef") or {}
        place = reference.get("namespace") or "", reference.get("name") or ""
        claim = cluster.get("persistentvolumeclaims", *place)
        bound = (volume.get("status") or {}).get("phase") == "Bound"
        if bound and claim is not None and reference.get("uid") and uid_of(claim) != reference["uid"]:
            yield f"{named(volume)} is bound to a former {named(claim)} (uid {reference['uid']})"
