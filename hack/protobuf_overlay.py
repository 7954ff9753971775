"""Protobuf numbers that kubectl does not carry: of the extension API servers, of APIs long gone.

Source: k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator, struct tags of their v1 types; k8s.io/api,
generated.proto of resource/v1alpha2 in 1.30.
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
    """Names in the order of their numbers; `-` where a number is not used, `=` before an embedded message."""
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

_CLASSIC_DRA = {
    "AllocationResult": "resourceHandles availableOnNodes shareable",
    "AllocationResultModel": "namedResources",
    "DriverAllocationResult": "vendorRequestParameters =AllocationResultModel",
    "DriverRequests": "driverName vendorParameters requests",
    "NamedResourcesAllocationResult": "name",
    "NamedResourcesAttribute": "name =NamedResourcesAttributeValue",
    "NamedResourcesAttributeValue": (
        "- bool - - string quantity int intSlice stringSlice version"  # three were used and given up
    ),
    "NamedResourcesFilter": "selector",
    "NamedResourcesInstance": "name attributes",
    "NamedResourcesIntSlice": "ints",
    "NamedResourcesRequest": "selector",
    "NamedResourcesResources": "instances",
    "NamedResourcesStringSlice": "strings",
    "PodSchedulingContext": "metadata spec status",
    "PodSchedulingContextSpec": "selectedNode potentialNodes",
    "PodSchedulingContextStatus": "resourceClaims",
    "ResourceClaim": "metadata spec status",
    "ResourceClaimConsumerReference": "apiGroup - resource name uid",
    "ResourceClaimParameters": "metadata generatedFrom shareable driverRequests",
    "ResourceClaimParametersReference": "apiGroup kind name",
    "ResourceClaimSchedulingStatus": "name unsuitableNodes",
    "ResourceClaimSpec": "resourceClassName parametersRef allocationMode",
    "ResourceClaimStatus": "driverName allocation reservedFor deallocationRequested",
    "ResourceClaimTemplate": "metadata spec",
    "ResourceClaimTemplateSpec": "metadata spec",
    "ResourceClass": (
        "metadata driverName parametersRef suitableNodes structuredParameters defaultClaimParametersRef"
    ),
    "ResourceClassParameters": "metadata generatedFrom vendorParameters filters",
    "ResourceClassParametersReference": "apiGroup kind name namespace",
    "ResourceFilter": "driverName =ResourceFilterModel",
    "ResourceFilterModel": "namedResources",
    "ResourceHandle": "driverName data - - structuredData",
    "ResourceModel": "namedResources",
    "ResourceRequest": "vendorParameters =ResourceRequestModel",
    "ResourceRequestModel": "namedResources",
    "ResourceSlice": "metadata nodeName driverName =ResourceModel",
    "StructuredResourceHandle": "vendorClassParameters vendorClaimParameters - nodeName results",
    "VendorParameters": "driverName parameters",
}
# Of 1.26, later renamed: PodScheduling; its other types are those of v1alpha2 (from memory).
_FIRST_DRA = {
    **{
        name: names
        for name, names in _CLASSIC_DRA.items()
        if name.startswith(("ResourceClaim", "ResourceClass"))
    },
    "AllocationResult": "resourceHandle availableOnNodes shareable",
    "PodScheduling": "metadata spec status",
    "PodSchedulingSpec": "selectedNode potentialNodes",
    "PodSchedulingStatus": "resourceClaims",
}
# Of 1.31, classic DRA's last (from the notes on their numbers that the types keep).
_LAST_DRA = {
    "AllocationResult": "- - - controller",
    "DeviceClassSpec": "- - suitableNodes",
    "DeviceTaintSelector": "deviceClassName - - - selectors",
    "PodSchedulingContext": "metadata spec status",
    "PodSchedulingContextSpec": "selectedNode potentialNodes",
    "PodSchedulingContextStatus": "resourceClaims",
    "ResourceClaimSchedulingStatus": "name unsuitableNodes",
    "ResourceClaimSpec": "- controller",
    "ResourceClaimStatus": "- - deallocationRequested",
}
# Fields that are no more.
_CORE = {
    "ClaimSource": "resourceClaimName resourceClaimTemplateName",
    "PersistentVolumeClaimStatus": "- - - - - resizeStatus",
    "PodResourceClaim": "- source",
    "PodSpec": "- " * 41 + "workloadRef",  # of 1.35 (from memory)
    "WorkloadReference": "name podGroup podGroupReplicaKey",
}
_NETWORKING = {"NetworkPolicy": "- - status", "NetworkPolicyStatus": "conditions"}

# What an alpha version had in common with a beta that kubectl carries: it was generated from the same source.
TWINS = {
    "io.k8s.api.resource.v1alpha3.": "io.k8s.api.resource.v1beta1.",
    "io.k8s.api.certificates.v1alpha1.": "io.k8s.api.certificates.v1beta1.",
}


def _table(prefix: str, rows: dict[str, str]) -> dict[str, dict[str, int]]:
    return {
        prefix + name: {
            f"={prefix}{key[1:]}" if key[0] == "=" else key: number for key, number in _row(names).items()
        }
        for name, names in rows.items()
    }


NUMBERS: dict[str, dict[str, int]] = {
    **_table("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.", _EXTENSIONS),
    **_table("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.", _AGGREGATOR),
    **_table("io.k8s.api.core.v1.", _CORE),
    **_table("io.k8s.api.networking.v1.", _NETWORKING),
    **_table("io.k8s.api.resource.v1alpha1.", _FIRST_DRA),
    **_table("io.k8s.api.resource.v1alpha2.", _CLASSIC_DRA),
    **_table("io.k8s.api.resource.v1alpha3.", _LAST_DRA),
}
