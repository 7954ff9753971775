"""What OpenAPI cannot tell of types whose Go source is not among the inputs (from memory of Go)."""

from collections.abc import Iterable

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
REGISTRATION = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."


def _paths(prefix: str, fields: dict[str, Iterable[str]]) -> set[str]:
    return {f"{prefix}{kind}.{field}" for kind, names in fields.items() for field in names}


# Struct fields that are no pointers: Go always writes them.
VALUES = (
    _paths(
        META,
        {
            "ObjectMeta": ["creationTimestamp"],
            "Condition": ["lastTransitionTime"],
            "Status": ["metadata"],
            "WatchEvent": ["object"],
            "APIGroup": ["preferredVersion"],
        },
    )
    | _paths(
        EXTENSIONS,
        {
            "CustomResourceDefinition": ["metadata", "spec", "status"],
            "CustomResourceDefinitionSpec": ["names"],
            "CustomResourceDefinitionStatus": ["acceptedNames"],
            "CustomResourceDefinitionCondition": ["lastTransitionTime"],
        },
    )
    | _paths(
        REGISTRATION,
        {
            "APIService": ["metadata", "spec", "status"],
            "APIServiceCondition": ["lastTransitionTime"],
        },
    )
)

# No omitempty although not required.
WRITTEN_EMPTY = _paths(EXTENSIONS, {"CustomResourceDefinitionStatus": ["conditions", "storedVersions"]})

# Scalars behind a Go pointer: zero differs from absent.
POINTERS = (
    _paths(
        META,
        {
            "ObjectMeta": ["deletionGracePeriodSeconds"],
            "OwnerReference": ["controller", "blockOwnerDeletion"],
            "DeleteOptions": [
                "gracePeriodSeconds",
                "orphanDependents",
                "propagationPolicy",
                "ignoreStoreReadErrorWithClusterBreakingPotential",
            ],
            "Preconditions": ["uid", "resourceVersion"],
            "ListMeta": ["remainingItemCount"],
        },
    )
    | _paths(
        EXTENSIONS,
        {
            "JSONSchemaProps": [
                "maximum",
                "minimum",
                "maxLength",
                "minLength",
                "maxItems",
                "minItems",
                "maxProperties",
                "minProperties",
                "multipleOf",
                "x-kubernetes-preserve-unknown-fields",
                "x-kubernetes-list-type",
                "x-kubernetes-map-type",
            ],
            "WebhookClientConfig": ["url"],
            "ServiceReference": ["path", "port"],
            "CustomResourceSubresourceScale": ["labelSelectorPath"],
            "CustomResourceDefinitionVersion": ["deprecationWarning"],
            "ValidationRule": ["reason", "optionalOldSelf"],
        },
    )
    | _paths(REGISTRATION, {"ServiceReference": ["port"]})
    | _paths(
        "io.k8s.api.resource.v1alpha2.", {"NamedResourcesAttribute": ["bool", "int", "string", "version"]}
    )
)
