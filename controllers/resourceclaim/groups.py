"""Claims that a group of pods shares: which of a pod's claims are the group's, and who holds them.

What 1.36 does with its gates off is from memory.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim, 1.36 and 1.37 (gate DRAWorkloadResourceClaims).
"""

from kubeskew.apimachinery.claim_users import pod_group_of
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import pod_groups_ref
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.resourceclaim.claims import ClaimError
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.making import Owner


class PodGroups:
    """The groups of pods, if the gates let them have claims."""

    def __init__(self, context: ControllerContext, features: ResourceClaimFeatures) -> None:
        self.enabled = features.group_claims
        self._strict = features.checks_groups
        self.ref = pod_groups_ref(context.environment.version)
        self.informer: Informer | None = context.informer(self.ref) if features.watches_groups else None

    def owner_for(self, pod: Object, entry: Object) -> Owner | None:
        """Returns the group whose claim an entry of the pod is; None if the claim is the pod's own.

        Raises ClaimError if that is not known, or if a gate forbids it.
        """
        name = pod_group_of(pod)
        if not name or (self.informer is None and not self._strict):
            return None
        if self.informer is None:
            raise ClaimError("GenericWorkload feature is disabled")
        group = self.informer.get(pod["metadata"]["namespace"], name)
        if group is None:
            raise ClaimError(f'podgroup.scheduling.k8s.io "{name}" not found')
        if entry not in (group["spec"].get("resourceClaims") or ()):
            return None
        if not self.enabled:
            raise ClaimError("DRAWorkloadResourceClaims feature is disabled")
        return Owner(self.ref, group)

    def consumer(self, pod: Object, entry: Object) -> Object:
        """Returns the consumer that a claim is reserved for: the group if the claim is the group's, else
        the pod."""
        owner = self.owner_for(pod, entry)
        metadata = (owner.obj if owner is not None else pod)["metadata"]
        about = {"name": metadata["name"], "uid": metadata["uid"]}
        if owner is None:
            return {"resource": "pods", **about}
        return {"apiGroup": self.ref.group, "resource": self.ref.plural, **about}
