"""Registers what is particular to the kinds of apiextensions.k8s.io: each by module and name."""

STRATEGIES = {
    "customresourcedefinitions": "customresourcedefinition.strategy:DefinitionStrategy",
}

DEFAULTS = {
    "v1.CustomResourceDefinition": "defaults:definition",
}
