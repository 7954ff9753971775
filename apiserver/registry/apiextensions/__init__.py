"""Registers what is particular to the kinds of apiextensions.k8s.io: each by module and name."""

STRATEGIES = {
    "customresourcedefinitions": "customresourcedefinition:DefinitionStrategy",
}

DEFAULTS = {
    "v1.CustomResourceDefinition": "customresourcedefinition:default_definition",
}
