"""Protobuf numbers of types that kubectl does not carry: the extension API servers' own.

Source: k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator, struct tags of their v1 types.
"""

_SCHEMA_PROPS = (
    "id $schema $ref description type format title default maximum exclusiveMaximum minimum exclusiveMinimum "
    "maxLength minLength pattern maxItems minItems uniqueItems multipleOf enum maxProperties minProperties "
    "required items allOf oneOf anyOf not properties additionalProperties patternProperties dependencies "
    "additionalItems definitions externalDocs example nullable x-kubernetes-preserve-unknown-fields "
    "x-kubernetes-embedded-resource x-kubernetes-int-or-string x-kubernetes-list-map-keys "
    "x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-validations"
)


def _row(names: str) -> dict[str, int]:
    """Names in the order of their numbers; `-` where a number is not used."""
    return {name: number for number, name in enumerate(names.split(), 1) if name != "-"}


# observedGeneration, selectableFields and the last four of ValidationRule are later than the rest.
_EXTENSIONS = {
    "CustomResourceColumnDefinition": "name type format description priority jsonPath",
    "CustomResourceConversion": "strategy webhook",
    "CustomResourceDefinition": "metadata spec status",
    "CustomResourceDefinitionCondition": "type status lastTransitionTime reason message observedGeneration",
    "CustomResourceDefinitionNames": "plural singular shortNames kind listKind categories",
    "CustomResourceDefinitionSpec": "group - names scope - - versions - conversion preserveUnknownFields",
    "CustomResourceDefinitionStatus": "conditions acceptedNames storedVersions observedGeneration",
    "CustomResourceDefinitionVersion": (
        "name served storage schema subresources additionalPrinterColumns deprecated deprecationWarning "
        "selectableFields"
    ),
    "CustomResourceSubresourceScale": "specReplicasPath statusReplicasPath labelSelectorPath",
    "CustomResourceSubresourceStatus": "",
    "CustomResourceSubresources": "status scale",
    "CustomResourceValidation": "openAPIV3Schema",
    "ExternalDocumentation": "description url",
    "JSONSchemaProps": _SCHEMA_PROPS,
    "SelectableField": "jsonPath",
    "ServiceReference": "namespace name path port",
    "ValidationRule": "rule message messageExpression reason fieldPath optionalOldSelf",
    "WebhookClientConfig": "service caBundle url",
    "WebhookConversion": "- clientConfig conversionReviewVersions",
}
_AGGREGATOR = {
    "APIService": "metadata spec status",
    "APIServiceCondition": "type status lastTransitionTime reason message",
    "APIServiceSpec": (
        "service group version insecureSkipTLSVerify caBundle - groupPriorityMinimum versionPriority"
    ),
    "APIServiceStatus": "conditions",
    "ServiceReference": "namespace name port",
}

NUMBERS: dict[str, dict[str, int]] = {
    f"{prefix}.v1.{name}": _row(names)
    for prefix, table in (
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions", _EXTENSIONS),
        ("io.k8s.kube-aggregator.pkg.apis.apiregistration", _AGGREGATOR),
    )
    for name, names in table.items()
}
