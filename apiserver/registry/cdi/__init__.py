"""Strategies, cells and defaults of cdi.k8s.io (KEP-3063 as drafted) stand here by module and name."""

STRATEGIES = {
    "resourceclaims": "resourceclaim:ClaimStrategy",
    "resourceclasses": "resourceclass:ResourceClassStrategy",
}

CELLS = {
    "ResourceClaim": "resourceclaim:resource_claim_cells",
    "ResourceClass": "resourceclass:resource_class_cells",
}

DEFAULTS = {
    "v1alpha1.ResourceClaim": "resourceclaim:default_claim",
}

# The templates of claims that stand inside of pods.
POD_CLAIM_TEMPLATES = {
    "defaults": "claim_templates:claim_template_defaults",
    "errors": "claim_templates:claim_template_errors",
}
