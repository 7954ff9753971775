"""Registers what is particular to the kinds of apiextensions.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "customresourcedefinitions": "customresourcedefinition.strategy:DefinitionStrategy",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1.CustomResourceDefinition": "defaults:definition",
}
