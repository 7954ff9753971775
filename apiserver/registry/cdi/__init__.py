"""Registers what is particular to the kinds of cdi.k8s.io (KEP-3063 as drafted), by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "resourceclaims": "resourceclaim.strategy:ClaimStrategy",
    "resourceclasses": "resourceclass.strategy:ResourceClassStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "ResourceClaim": "resourceclaim.table:resource_claim",
    "ResourceClass": "resourceclass.table:resource_class",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1alpha1.ResourceClaim": "resourceclaim.defaults:claim",
}
