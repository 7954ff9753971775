"""Registers what is particular to the kinds of cdi.k8s.io (KEP-3063 as drafted), by module and name."""

STRATEGIES = {
    "resourceclaims": "resourceclaim.strategy:ClaimStrategy",
    "resourceclasses": "resourceclass.strategy:ResourceClassStrategy",
}

CELLS = {
    "ResourceClaim": "resourceclaim.table:resource_claim",
    "ResourceClass": "resourceclass.table:resource_class",
}

DEFAULTS = {
    "v1alpha1.ResourceClaim": "resourceclaim.defaults:claim",
}
