"""Checks for whom claims are made and reserved: pods, or the groups that they are scheduled with (KEP-5729).

Source: k8s.io/dynamic-resource-allocation/resourceclaim, 1.36 (IsForPod, IsReservedForPod, BindTo).
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubeskew.apimachinery.claim_users import POD_GROUPS, is_for_pod, pod_group_of, reservation
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display

GetGroup = Callable[[str, str], Object | None]  # namespace, name


class ClaimUsers:
    """Answers for which pods claims are made and reserved."""

    def __init__(self, get_group: GetGroup | None, *, capitalized: bool) -> None:
        """`get_group` is None with DRAWorkloadResourceClaims off; `capitalized` says how errors name pods."""
        self._get_group = get_group
        self._kind = "Pod" if capitalized else "pod"

    def check_owner(self, claim: Mapping[str, Any], pod: Object) -> None:
        """Raises ClaimNotUsable for a claim that was made for somebody else."""
        groups = self._get_group is not None
        if is_for_pod(claim, pod, groups=groups):
            return
        metadata, group = pod["metadata"], pod_group_of(pod) if groups else ""
        why = f"neither Pod nor PodGroup {group} is the owner" if group else f"{self._kind} is not owner"
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        raise ClaimNotUsable(
            f"ResourceClaim {display(claim)} was not created for {self._kind} {name} ({why})"
        )

    def reservation(self, claim: Mapping[str, Any], pod: Object) -> Object | None:
        """Returns the consumer that lets the pod use the claim: itself, or its group."""
        return reservation(claim, pod, groups=self._get_group is not None)

    def consumer(self, claim: Mapping[str, Any], pod: Object) -> Object:
        """Returns the consumer to write for the pod.

        A claim that the pod's group names, too, is reserved for the group; raises ClaimNotUsable if there is
        no such group.
        """
        metadata = pod["metadata"]
        group = self._group(pod)
        if group is not None and self._is_shared(claim, pod, group):
            api_group, resource = POD_GROUPS
            about = group["metadata"]
            return {"apiGroup": api_group, "resource": resource, "name": about["name"], "uid": about["uid"]}
        return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}

    def _group(self, pod: Object) -> Object | None:
        name = pod_group_of(pod)
        if self._get_group is None or not name:
            return None
        group = self._get_group(pod["metadata"].get("namespace", ""), name)
        if group is None:
            raise ClaimNotUsable(f'podgroup.scheduling.k8s.io "{name}" not found')
        return group

    @staticmethod
    def _is_shared(claim: Mapping[str, Any], pod: Object, group: Object) -> bool:
        """Returns whether the group has the same claim under the same name as the pod."""
        keys = ("name", "resourceClaimName", "resourceClaimTemplateName")
        of_group = [
            tuple(entry.get(key) for key in keys)
            for entry in (group.get("spec") or {}).get("resourceClaims") or ()
        ]
        generated = {
            status["name"]: status.get("resourceClaimName")
            for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        for entry in pod["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimName") or generated.get(entry["name"])
            if name == claim["metadata"]["name"] and tuple(entry.get(key) for key in keys) in of_group:
                return True
        return False
