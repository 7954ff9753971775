"""Resources and allocations of semantic models over gRPC, and as resource.k8s.io/v1alpha2 has them.

As KEP-4381 had drafted them. A reader that finds an entry with no known model refuses the whole: it was
written by somebody newer, and what the entry says is not to be guessed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.protocols.dra_classic import raw_extension
from kubeskew.kubelet.protocols.messages import dra_classic_pb2 as messages

_NEWER_MODEL = 15  # a number of `ResourceAttribute` that no release has


class UnknownModelError(ValueError):
    """An entry of a semantic model that this release does not know; the text says which."""


def resources_of(response: Any) -> list[Object]:
    """Raises UnknownModelError."""
    if response.resources:
        raise UnknownModelError("its resources are not in the form of this release")
    return [_resource(entry) for entry in response.node_resources]


def response_of(resources: Sequence[Object], *, newer_model: bool = False) -> Any:
    """With `newer_model` each resource has one more attribute, of a model that no release knows."""
    entries = [_resource_message(resource) for resource in resources]
    if newer_model:
        content = bytes([_NEWER_MODEL << 3 | 2, 0])  # an empty message
        for entry in entries:
            named = messages.ResourceAttribute(name="newer").SerializeToString()
            entry.attributes.append(messages.ResourceAttribute.FromString(named + content))
    return messages.NodeListAndWatchResourcesResponse(node_resources=entries)


def handle_messages(handle: Mapping[str, Any]) -> list[Any]:
    """The allocation by semantic parameters, as messages; a driver's own handle has none.

    Raises UnknownModelError.
    """
    value = handle.get("semanticData")
    if value is None:
        return []
    results = []
    for index, allocation in enumerate(value.get("allocations") or ()):
        counter = allocation.get("counter")
        if counter is None:
            raise UnknownModelError(f"semanticData.allocations[{index}] has no semantic model that is known")
        allocated = messages.CounterAllocation(
            resource_id=counter["resourceID"], name=counter["name"], count=counter["count"]
        )
        results.append(messages.SemanticAllocationResult(counter=allocated))
    return [
        messages.SemanticResourceHandle(
            class_parameters=raw_extension(value.get("classParameters")),
            claim_parameters=raw_extension(value.get("claimParameters")),
            node_name=value.get("nodeName") or "",
            resource_id=value.get("resourceID") or "",
            allocations=results,
        )
    ]


def _resource(entry: Any) -> Object:
    attributes = [_attribute(entry, attribute) for attribute in entry.attributes]
    resource: Object = {"id": entry.id or entry.name}
    if entry.name:
        resource["name"] = entry.name
    return {**resource, "attributes": attributes} if attributes else resource


def _attribute(entry: Any, attribute: Any) -> Object:
    model = attribute.WhichOneof("model")
    if model == "counter":
        return {"name": attribute.name, "counter": {"count": attribute.counter.count}}
    if model == "metadata":
        return {"name": attribute.name, "metadata": _metadata(attribute.metadata)}
    resource = entry.id or entry.name
    raise UnknownModelError(
        f'attribute "{attribute.name}" of resource "{resource}" has no semantic model that is known'
    )


def _metadata(value: Any) -> Object:
    lists: Object = {
        "versions": [{"name": entry.name, "version": entry.version} for entry in value.versions],
        "labels": [
            {"name": entry.name, **({"value": entry.value} if entry.value else {})} for entry in value.labels
        ],
        "values": [{"name": entry.name, "quantity": entry.quantity} for entry in value.values],
    }
    return {key: entries for key, entries in lists.items() if entries}


def _resource_message(resource: Object) -> Any:
    return messages.NodeResource(
        id=resource.get("id") or "",
        name=resource.get("name") or "",
        attributes=[_attribute_message(attribute) for attribute in resource.get("attributes") or ()],
    )


def _attribute_message(attribute: Object) -> Any:
    if "counter" in attribute:
        counter = messages.CounterAttribute(count=attribute["counter"]["count"])
        return messages.ResourceAttribute(name=attribute["name"], counter=counter)
    metadata = attribute["metadata"]
    return messages.ResourceAttribute(
        name=attribute["name"],
        metadata=messages.MetadataAttribute(
            versions=[messages.MetadataVersion(**entry) for entry in metadata.get("versions") or ()],
            labels=[messages.MetadataLabel(**entry) for entry in metadata.get("labels") or ()],
            values=[messages.MetadataValue(**entry) for entry in metadata.get("values") or ()],
        ),
    )
