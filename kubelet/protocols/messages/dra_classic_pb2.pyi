from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodePrepareResourceRequest(_message.Message):
    __slots__ = ("namespace", "claim_uid", "claim_name", "resource_handle")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_UID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim_uid: str
    claim_name: str
    resource_handle: str
    def __init__(self, namespace: _Optional[str] = ..., claim_uid: _Optional[str] = ..., claim_name: _Optional[str] = ..., resource_handle: _Optional[str] = ...) -> None: ...

class NodePrepareResourceAnswer(_message.Message):
    __slots__ = ("cdi_devices",)
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cdi_devices: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeUnprepareResourceOldRequest(_message.Message):
    __slots__ = ("namespace", "claim_uid", "claim_name", "cdi_devices")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_UID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim_uid: str
    claim_name: str
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., claim_uid: _Optional[str] = ..., claim_name: _Optional[str] = ..., cdi_devices: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeUnprepareResourceRequest(_message.Message):
    __slots__ = ("namespace", "claim_uid", "claim_name", "resource_handle")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_UID_FIELD_NUMBER: _ClassVar[int]
    CLAIM_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    claim_uid: str
    claim_name: str
    resource_handle: str
    def __init__(self, namespace: _Optional[str] = ..., claim_uid: _Optional[str] = ..., claim_name: _Optional[str] = ..., resource_handle: _Optional[str] = ...) -> None: ...

class NodeUnprepareResourceAnswer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RawExtension(_message.Message):
    __slots__ = ("raw",)
    RAW_FIELD_NUMBER: _ClassVar[int]
    raw: bytes
    def __init__(self, raw: _Optional[bytes] = ...) -> None: ...

class NamedResourcesAllocationResult(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class AllocationResultModel(_message.Message):
    __slots__ = ("named_resources",)
    NAMED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    named_resources: NamedResourcesAllocationResult
    def __init__(self, named_resources: _Optional[_Union[NamedResourcesAllocationResult, _Mapping]] = ...) -> None: ...

class DriverAllocationResult(_message.Message):
    __slots__ = ("vendor_request_parameters", "allocation_result_model")
    VENDOR_REQUEST_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_RESULT_MODEL_FIELD_NUMBER: _ClassVar[int]
    vendor_request_parameters: RawExtension
    allocation_result_model: AllocationResultModel
    def __init__(self, vendor_request_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., allocation_result_model: _Optional[_Union[AllocationResultModel, _Mapping]] = ...) -> None: ...

class StructuredResourceHandle(_message.Message):
    __slots__ = ("vendor_class_parameters", "vendor_claim_parameters", "node_name", "results")
    VENDOR_CLASS_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    VENDOR_CLAIM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    vendor_class_parameters: RawExtension
    vendor_claim_parameters: RawExtension
    node_name: str
    results: _containers.RepeatedCompositeFieldContainer[DriverAllocationResult]
    def __init__(self, vendor_class_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., vendor_claim_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., node_name: _Optional[str] = ..., results: _Optional[_Iterable[_Union[DriverAllocationResult, _Mapping]]] = ...) -> None: ...

class SemanticResourceHandle(_message.Message):
    __slots__ = ("class_parameters", "claim_parameters", "node_name", "resource_id", "allocations")
    CLASS_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    class_parameters: RawExtension
    claim_parameters: RawExtension
    node_name: str
    resource_id: str
    allocations: _containers.RepeatedCompositeFieldContainer[SemanticAllocationResult]
    def __init__(self, class_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., claim_parameters: _Optional[_Union[RawExtension, _Mapping]] = ..., node_name: _Optional[str] = ..., resource_id: _Optional[str] = ..., allocations: _Optional[_Iterable[_Union[SemanticAllocationResult, _Mapping]]] = ...) -> None: ...

class SemanticAllocationResult(_message.Message):
    __slots__ = ("counter",)
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    counter: CounterAllocation
    def __init__(self, counter: _Optional[_Union[CounterAllocation, _Mapping]] = ...) -> None: ...

class CounterAllocation(_message.Message):
    __slots__ = ("resource_id", "name", "count")
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    resource_id: str
    name: str
    count: int
    def __init__(self, resource_id: _Optional[str] = ..., name: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("namespace", "uid", "name", "resource_handle", "structured_resource_handle", "semantic_resource_handle")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_RESOURCE_HANDLE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    uid: str
    name: str
    resource_handle: str
    structured_resource_handle: _containers.RepeatedCompositeFieldContainer[StructuredResourceHandle]
    semantic_resource_handle: _containers.RepeatedCompositeFieldContainer[SemanticResourceHandle]
    def __init__(self, namespace: _Optional[str] = ..., uid: _Optional[str] = ..., name: _Optional[str] = ..., resource_handle: _Optional[str] = ..., structured_resource_handle: _Optional[_Iterable[_Union[StructuredResourceHandle, _Mapping]]] = ..., semantic_resource_handle: _Optional[_Iterable[_Union[SemanticResourceHandle, _Mapping]]] = ...) -> None: ...

class NodePrepareResourcesRequest(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ...) -> None: ...

class NodePrepareResourceResponse(_message.Message):
    __slots__ = ("cdi_devices", "error")
    CDI_DEVICES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    cdi_devices: _containers.RepeatedScalarFieldContainer[str]
    error: str
    def __init__(self, cdi_devices: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ...) -> None: ...

class NodePrepareResourcesResponse(_message.Message):
    __slots__ = ("claims",)
    class ClaimsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: NodePrepareResourceResponse
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[NodePrepareResourceResponse, _Mapping]] = ...) -> None: ...
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.MessageMap[str, NodePrepareResourceResponse]
    def __init__(self, claims: _Optional[_Mapping[str, NodePrepareResourceResponse]] = ...) -> None: ...

class NodeUnprepareResourcesRequest(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ...) -> None: ...

class NodeUnprepareResourceResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class NodeUnprepareResourcesResponse(_message.Message):
    __slots__ = ("claims",)
    class ClaimsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: NodeUnprepareResourceResponse
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[NodeUnprepareResourceResponse, _Mapping]] = ...) -> None: ...
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.MessageMap[str, NodeUnprepareResourceResponse]
    def __init__(self, claims: _Optional[_Mapping[str, NodeUnprepareResourceResponse]] = ...) -> None: ...

class NodeListAndWatchResourcesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NodeListAndWatchResourcesResponse(_message.Message):
    __slots__ = ("resources", "node_resources")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    NODE_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ResourceModel]
    node_resources: _containers.RepeatedCompositeFieldContainer[NodeResource]
    def __init__(self, resources: _Optional[_Iterable[_Union[ResourceModel, _Mapping]]] = ..., node_resources: _Optional[_Iterable[_Union[NodeResource, _Mapping]]] = ...) -> None: ...

class NodeResource(_message.Message):
    __slots__ = ("id", "attributes", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    attributes: _containers.RepeatedCompositeFieldContainer[ResourceAttribute]
    name: str
    def __init__(self, id: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[ResourceAttribute, _Mapping]]] = ..., name: _Optional[str] = ...) -> None: ...

class ResourceAttribute(_message.Message):
    __slots__ = ("name", "counter", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    counter: CounterAttribute
    metadata: MetadataAttribute
    def __init__(self, name: _Optional[str] = ..., counter: _Optional[_Union[CounterAttribute, _Mapping]] = ..., metadata: _Optional[_Union[MetadataAttribute, _Mapping]] = ...) -> None: ...

class CounterAttribute(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class MetadataAttribute(_message.Message):
    __slots__ = ("versions", "labels", "values")
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedCompositeFieldContainer[MetadataVersion]
    labels: _containers.RepeatedCompositeFieldContainer[MetadataLabel]
    values: _containers.RepeatedCompositeFieldContainer[MetadataValue]
    def __init__(self, versions: _Optional[_Iterable[_Union[MetadataVersion, _Mapping]]] = ..., labels: _Optional[_Iterable[_Union[MetadataLabel, _Mapping]]] = ..., values: _Optional[_Iterable[_Union[MetadataValue, _Mapping]]] = ...) -> None: ...

class MetadataVersion(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class MetadataLabel(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class MetadataValue(_message.Message):
    __slots__ = ("name", "quantity")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    quantity: int
    def __init__(self, name: _Optional[str] = ..., quantity: _Optional[int] = ...) -> None: ...

class ResourceModel(_message.Message):
    __slots__ = ("named_resources",)
    NAMED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    named_resources: NamedResourcesResources
    def __init__(self, named_resources: _Optional[_Union[NamedResourcesResources, _Mapping]] = ...) -> None: ...

class NamedResourcesResources(_message.Message):
    __slots__ = ("instances",)
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    instances: _containers.RepeatedCompositeFieldContainer[NamedResourcesInstance]
    def __init__(self, instances: _Optional[_Iterable[_Union[NamedResourcesInstance, _Mapping]]] = ...) -> None: ...

class NamedResourcesInstance(_message.Message):
    __slots__ = ("name", "attributes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    attributes: _containers.RepeatedCompositeFieldContainer[NamedResourcesAttribute]
    def __init__(self, name: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[NamedResourcesAttribute, _Mapping]]] = ...) -> None: ...

class NamedResourcesAttribute(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: NamedResourcesAttributeValue
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[NamedResourcesAttributeValue, _Mapping]] = ...) -> None: ...

class NamedResourcesAttributeValue(_message.Message):
    __slots__ = ("bool", "string", "quantity", "int", "int_slice", "string_slice", "version")
    BOOL_FIELD_NUMBER: _ClassVar[int]
    STRING_FIELD_NUMBER: _ClassVar[int]
    QUANTITY_FIELD_NUMBER: _ClassVar[int]
    INT_FIELD_NUMBER: _ClassVar[int]
    INT_SLICE_FIELD_NUMBER: _ClassVar[int]
    STRING_SLICE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    bool: bool
    string: str
    quantity: Quantity
    int: int
    int_slice: NamedResourcesIntSlice
    string_slice: NamedResourcesStringSlice
    version: str
    def __init__(self, bool: _Optional[bool] = ..., string: _Optional[str] = ..., quantity: _Optional[_Union[Quantity, _Mapping]] = ..., int: _Optional[int] = ..., int_slice: _Optional[_Union[NamedResourcesIntSlice, _Mapping]] = ..., string_slice: _Optional[_Union[NamedResourcesStringSlice, _Mapping]] = ..., version: _Optional[str] = ...) -> None: ...

class Quantity(_message.Message):
    __slots__ = ("string",)
    STRING_FIELD_NUMBER: _ClassVar[int]
    string: str
    def __init__(self, string: _Optional[str] = ...) -> None: ...

class NamedResourcesIntSlice(_message.Message):
    __slots__ = ("ints",)
    INTS_FIELD_NUMBER: _ClassVar[int]
    ints: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ints: _Optional[_Iterable[int]] = ...) -> None: ...

class NamedResourcesStringSlice(_message.Message):
    __slots__ = ("strings",)
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    strings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, strings: _Optional[_Iterable[str]] = ...) -> None: ...
