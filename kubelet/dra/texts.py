"""What the DRA manager says when something is wrong: the wording of each release."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Texts:
    """Formats; their fields are named by what they tell."""

    prepare: str
    unprepare: str
    claim_name: str
    fetch: str
    not_allowed: str
    claim: str
    unregistered: str
    call_failed: str
    claim_failed: str
    skipped: str
    unknown: str
    checkpoint: str


# pkg/kubelet/cm/dra/manager.go of 1.34 to 1.36.
MODERN = Texts(
    prepare="prepare dynamic resources: {error}",
    unprepare="unprepare dynamic resources: {error}",
    claim_name="{error}",
    fetch="fetch ResourceClaim {claim}: {error}",
    not_allowed="pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid})",
    claim="ResourceClaim {claim}: {error}",
    unregistered="DRA driver {driver} is not registered",
    call_failed="{call}: {error}",
    claim_failed="{call} failed for ResourceClaim {claim}: {error}",
    skipped="{call} skipped {count} ResourceClaims",
    unknown="{call} returned result for unknown claim UID {claim_uid}",
    checkpoint=(
        "create ResourceClaim cache: error calling GetOrCreate() on checkpoint state: "
        "failed to get checkpoint dra_manager_state: {error}"
    ),
)

# The same file up to 1.33; what a client that is not registered gives is from memory.
CLASSIC = Texts(
    prepare="{error}",
    unprepare="{error}",
    claim_name="prepare resource claim: {error}",
    fetch="failed to fetch ResourceClaim {claim} referenced by pod {pod}: {error}",
    not_allowed="pod {pod}({pod_uid}) is not allowed to use resource claim {claim}({claim_uid})",
    claim="claim {namespace}/{claim}: {error}",
    unregistered=(
        "failed to get gRPC client for driver {driver}: "
        "plugin name {driver} not found in the list of registered DRA plugins"
    ),
    call_failed="{call} failed: {error}",
    claim_failed="{call} failed for claim {namespace}/{claim}: {error}",
    skipped="{call} left out {count} claims",
    unknown="{call} returned result for unknown claim UID {claim_uid}",
    checkpoint=(
        "failed to create claimInfo cache: error calling GetOrCreate() on checkpoint state: "
        "failed to get checkpoint dra_manager_state: {error}"
    ),
)
