"""The service of a DRA driver on a node, in the versions that kubelets of 1.26 to 1.30 call."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kubeskew.kubelet.protocols.grpc_calls import Streaming, Unary
from kubeskew.kubelet.protocols.messages import dra_classic_pb2 as messages


@dataclass(frozen=True)
class ClassicService:
    """One version: its two methods, whether they take all claims at once, and whether a stream reports named
    resources."""

    name: str
    prepare: Unary[Any, Any]
    unprepare: Unary[Any, Any]
    batches: bool
    reports_resources: bool = False


V1ALPHA1 = ClassicService(
    "v1alpha1",
    Unary(
        "v1alpha1.Node",
        "NodePrepareResource",
        messages.NodePrepareResourceRequest,
        messages.NodePrepareResourceAnswer,
    ),
    Unary(
        "v1alpha1.Node",
        "NodeUnprepareResource",
        messages.NodeUnprepareResourceOldRequest,
        messages.NodeUnprepareResourceAnswer,
    ),
    batches=False,
)
V1ALPHA2 = ClassicService(
    "v1alpha2",
    Unary(
        "v1alpha2.Node",
        "NodePrepareResource",
        messages.NodePrepareResourceRequest,
        messages.NodePrepareResourceAnswer,
    ),
    Unary(
        "v1alpha2.Node",
        "NodeUnprepareResource",
        messages.NodeUnprepareResourceRequest,
        messages.NodeUnprepareResourceAnswer,
    ),
    batches=False,
)
V1ALPHA3 = ClassicService(
    "v1alpha3",
    Unary(
        "v1alpha3.Node",
        "NodePrepareResources",
        messages.NodePrepareResourcesRequest,
        messages.NodePrepareResourcesResponse,
    ),
    Unary(
        "v1alpha3.Node",
        "NodeUnprepareResources",
        messages.NodeUnprepareResourcesRequest,
        messages.NodeUnprepareResourcesResponse,
    ),
    batches=True,
)
NODE_RESOURCES: Streaming[Any, Any] = Streaming(
    "v1alpha3.Node",
    "NodeListAndWatchResources",
    messages.NodeListAndWatchResourcesRequest,
    messages.NodeListAndWatchResourcesResponse,
)
V1ALPHA3_OF_1_30 = replace(V1ALPHA3, reports_resources=True)  # and of 1.29+kep4381


def digest(response: Any) -> str:
    """Both ends of a stream make it of the last message."""
    return hashlib.sha256(response.SerializeToString(deterministic=True)).hexdigest()


def raw_extension(parameters: Any) -> Any:
    return None if parameters is None else messages.RawExtension(raw=orjson.dumps(parameters))


def structured_messages(handle: dict[str, Any]) -> list[Any]:
    """The scheduler's allocation, as messages; a driver's own handle has none."""
    value = handle.get("structuredData")
    if value is None:
        return []

    results = [
        messages.DriverAllocationResult(
            vendor_request_parameters=raw_extension(result.get("vendorRequestParameters")),
            allocation_result_model=messages.AllocationResultModel(
                named_resources=messages.NamedResourcesAllocationResult(
                    name=(result.get("namedResources") or {}).get("name", "")
                )
            ),
        )
        for result in value.get("results") or ()
    ]
    return [
        messages.StructuredResourceHandle(
            vendor_class_parameters=raw_extension(value.get("vendorClassParameters")),
            vendor_claim_parameters=raw_extension(value.get("vendorClaimParameters")),
            node_name=value.get("nodeName") or "",
            results=results,
        )
    ]
