"""The error texts of the DRA manager, in the wording of each release.

Source: pkg/kubelet/cm/dra/manager.go of 1.33, 1.34 and 1.37, plugin/client.go and plugins_store.go.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ErrorTexts:
    """Error texts with named fields."""

    prepare: str
    unprepare: str
    prepare_name: str  # the claim's name is not known yet
    unprepare_name: str
    list_names: str
    fetch: str
    not_allowed: str
    claim: str
    unregistered: str
    prepare_client: str
    unprepare_client: str
    call_failed: str
    claim_failed: str
    skipped: str
    unknown: str
    no_info: str
    no_extended_info: str
    checkpoint: str
    checkpoint_entries: str  # its sum is right, and its claims cannot be read


_ENTRIES = "{what}GetEntries() on checkpoint: {error}"
_CHECKPOINT = "{what}GetOrCreate() on checkpoint state: failed to get checkpoint dra_manager_state: {error}"
_NO_INFO = "unable to get claim info for claim {claim} in namespace {namespace}"
_UNKNOWN = "{call} returned result for unknown claim UID {claim_uid}"

SINCE_34 = ErrorTexts(
    prepare="prepare dynamic resources: {error}",
    unprepare="unprepare dynamic resources: {error}",
    prepare_name="{error}",
    unprepare_name="{error}",
    list_names="{error}",
    fetch="fetch ResourceClaim {claim}: {error}",
    not_allowed="pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})",
    claim="ResourceClaim {claim}: {error}",
    unregistered="DRA driver {driver} is not registered",
    prepare_client="{error}",
    unprepare_client="{error}",
    call_failed="{call}: {error}",
    claim_failed="{call} failed for ResourceClaim {claim}: {error}",
    skipped="{call} skipped {count} ResourceClaims",
    unknown=_UNKNOWN,
    no_info="internal error: unable to get claim info for ResourceClaim {claim}",
    no_extended_info=_NO_INFO,
    checkpoint=_CHECKPOINT.replace("{what}", "create ResourceClaim cache: "),
    checkpoint_entries=_ENTRIES.replace("{what}", "create ResourceClaim cache: "),
)

_IN_NAMESPACE = "internal error: unable to get claim info for ResourceClaim {claim} in namespace {namespace}"
SINCE_37 = replace(SINCE_34, no_info=_IN_NAMESPACE, no_extended_info=_IN_NAMESPACE)

UNTIL_33 = ErrorTexts(
    prepare="{error}",
    unprepare="{error}",
    prepare_name="prepare resource claim: {error}",
    unprepare_name="unprepare resource claim: {error}",
    list_names="list resource claims: {error}",
    fetch="failed to fetch ResourceClaim {claim} referenced by pod {pod}: {error}",
    not_allowed="pod {pod}({pod_uid}) is not allowed to use resource claim {claim}({claim_uid})",
    claim="locked cache operation: claim {namespace}/{claim}: {error}",
    unregistered="plugin name {driver} not found in the list of registered DRA plugins",
    prepare_client="failed to get gRPC client for driver {driver}: {error}",
    unprepare_client="get gRPC client for DRA driver {driver}: {error}",
    call_failed="{call} failed: {error}",
    claim_failed="{call} failed for claim {namespace}/{claim}: {error}",
    skipped="{call} left out {count} claims",
    unknown=_UNKNOWN,
    no_info=f"locked cache operation: {_NO_INFO}",
    no_extended_info=f"locked cache operation: {_NO_INFO}",
    checkpoint=_CHECKPOINT.replace("{what}", "failed to create claimInfo cache: error calling "),
    checkpoint_entries=_ENTRIES.replace("{what}", "failed to create claimInfo cache: error calling "),
)
