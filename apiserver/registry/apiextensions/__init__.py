"""Strategies and defaults of apiextensions.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "customresourcedefinitions": "customresourcedefinition:DefinitionStrategy",
}

DEFAULTS = {
    "v1.CustomResourceDefinition": "customresourcedefinition:default_definition",
}
