"""The features of declarative validation in the API server: a part of features.py."""

from kubeskew.apimachinery.features import FeatureTable, by_release, choose, gate, until

# Kinds whose strategies declare first, and write by hand only what cannot be declared.
_ENFORCED_IN_36 = {
    "podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io",
    "resourcepoolstatusrequests.resource.k8s.io",
}  # fmt: skip
_ENFORCED_IN_37 = {
    "compositepodgroups.scheduling.k8s.io", "evictionrequests.lifecycle.k8s.io", "evictions.lifecycle.k8s.io",
}  # fmt: skip
# Kinds whose hand-written rules the declared ones take the place of if a gate says so.
_TAKEN_OVER = {
    33: {"replicationcontrollers"},
    34: {"certificatesigningrequests.certificates.k8s.io"},
    35: {
        "clusterroles.rbac.authorization.k8s.io", "deviceclasses.resource.k8s.io",
        "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io",
        "rolebindings.rbac.authorization.k8s.io", "storageclasses.storage.k8s.io",
    },
}  # fmt: skip
_TAKEOVER = gate("DeclarativeValidation") & gate("DeclarativeValidationTakeover") & until(35)


class DeclarativeFeatures(FeatureTable):
    """The rules that count, declared or hand-written. Where the latter do, upstream only counts the
    differences.

    Sources: staging/src/k8s.io/apiserver/pkg/registry/rest/validate.go and the strategies that call it, 1.33
    to 1.36; the kinds that came with 1.37.
    """

    enforced: frozenset[str] = by_release(
        {
            0: frozenset(),
            36: frozenset(_ENFORCED_IN_36),
            37: frozenset(_ENFORCED_IN_36 | _ENFORCED_IN_37),
        }
    )
    beta: bool = gate("DeclarativeValidationBeta")  # rules of that level count for these kinds, too
    taken_over: frozenset[str] = choose(
        _TAKEOVER,
        by_release(
            {
                0: frozenset(),
                33: frozenset(_TAKEN_OVER[33]),
                34: frozenset(_TAKEN_OVER[33] | _TAKEN_OVER[34]),
                35: frozenset(_TAKEN_OVER[33] | _TAKEN_OVER[34] | _TAKEN_OVER[35]),
            }
        ),
        frozenset(),
    )
    lengths_in_bytes: bool = until(35)  # maxLength counts bytes
    keys_may_repeat: bool = until(34)  # keys of a list of the type map are not checked
    immutable_is_forbidden: bool = until(34)  # the type of the error for a value that may not change
