"""Facts that OpenAPI lacks of types whose Go source is not among the inputs (from memory of Go)."""

from collections.abc import Iterable
from typing import NamedTuple

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
REGISTRATION = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1."


class Overlay(NamedTuple):
    """Fields by `definition.field`, and of `names` the names of their types."""

    values: frozenset[str]  # structs that are no pointers: Go always writes them
    written_empty: frozenset[str]  # no omitempty although not required
    pointers: frozenset[str]  # scalars behind a Go pointer: zero differs from absent
    names: dict[str, str]  # strings whose type has a name
    omitted_zeros: frozenset[str] = frozenset()  # structs that are no pointers, which Go leaves out if zero


def _paths(prefix: str, fields: dict[str, Iterable[str]]) -> set[str]:
    return {f"{prefix}{kind}.{field}" for kind, names in fields.items() for field in names}


_VALUES = (
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

_WRITTEN_EMPTY = _paths(EXTENSIONS, {"CustomResourceDefinitionStatus": ["conditions", "storedVersions"]})

_NAMES = dict.fromkeys(
    _paths(META, dict.fromkeys(("ObjectMeta", "OwnerReference", "Preconditions", "StatusDetails"), ("uid",))),
    "types.UID",
) | {
    f"{META}ManagedFieldsEntry.operation": "v1.ManagedFieldsOperationType",
    f"{META}LabelSelectorRequirement.operator": "v1.LabelSelectorOperator",
    f"{META}FieldSelectorRequirement.operator": "v1.FieldSelectorOperator",
    f"{META}Condition.status": "v1.ConditionStatus",
    f"{META}DeleteOptions.propagationPolicy": "v1.DeletionPropagation",
    f"{META}Status.reason": "v1.StatusReason",
    f"{META}StatusCause.reason": "v1.CauseType",
    f"{EXTENSIONS}CustomResourceDefinitionSpec.scope": "v1.ResourceScope",
    f"{EXTENSIONS}CustomResourceConversion.strategy": "v1.ConversionStrategyType",
    f"{EXTENSIONS}JSONSchemaProps.$schema": "v1.JSONSchemaURL",
    f"{EXTENSIONS}ValidationRule.reason": "v1.FieldValueErrorReason",
    f"{EXTENSIONS}CustomResourceDefinitionCondition.type": "v1.CustomResourceDefinitionConditionType",
    f"{EXTENSIONS}CustomResourceDefinitionCondition.status": "v1.ConditionStatus",
    f"{REGISTRATION}APIServiceCondition.type": "v1.APIServiceConditionType",
    f"{REGISTRATION}APIServiceCondition.status": "v1.ConditionStatus",
}

_POINTERS = (
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
                "$ref",
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

WRITTEN_DOWN = Overlay(frozenset(_VALUES), frozenset(_WRITTEN_EMPTY), frozenset(_POINTERS), _NAMES)

# Gates whose fields are lists that are looked at before they are stored: an empty one is not an absent one.
EMPTY_COUNTS = frozenset({"DRAListTypeAttributes"})

# Of enumerations whose constants are conversions, `PathType("Exact")`: the inputs up to 1.37 lack them.
CONVERTED_VALUES = {
    "AddressType": ("IPv4", "IPv6", "FQDN"),
    "PathType": ("Exact", "Prefix", "ImplementationSpecific"),
    "DeviceAllocationMode": ("ExactCount", "All"),
}

# Fields that came after 1.26, with their first release: no OpenAPI of 1.26 and 1.27 is among the inputs.
LATER = {
    f"{EXTENSIONS}ValidationRule.messageExpression": 27,
    f"{EXTENSIONS}ValidationRule.fieldPath": 28,
    f"{EXTENSIONS}ValidationRule.reason": 28,
}
