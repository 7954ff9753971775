"""Named resources as 1.30's drivers report them over gRPC, and as resource.k8s.io/v1alpha2 has them.

The messages are generated from the API's types upstream (staging/src/k8s.io/api/resource/v1alpha2), so that
a message and a part of a ResourceSlice say the same.
"""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.protocols.messages import dra_classic_pb2 as messages

_SCALARS = ("bool", "string", "int", "version")


def models_of(response: Any) -> list[Object]:
    """Each entry has the fields of a ResourceSlice that hold it."""
    return [_model(entry) for entry in response.resources]


def response_of(models: Sequence[Object]) -> Any:
    return messages.NodeListAndWatchResourcesResponse(resources=[_message(model) for model in models])


def _model(entry: Any) -> Object:
    if not entry.HasField("named_resources"):
        return {}
    return {"namedResources": {"instances": list(map(_instance, entry.named_resources.instances))}}


def _instance(message: Any) -> Object:
    instance: Object = {"name": message.name}
    if message.attributes:
        instance["attributes"] = [
            {"name": attribute.name, **_value(attribute.value)} for attribute in message.attributes
        ]
    return instance


def _value(value: Any) -> Object:
    fields: Object = {name: getattr(value, name) for name in _SCALARS if value.HasField(name)}
    if value.HasField("quantity"):
        fields["quantity"] = value.quantity.string or "0"
    if value.HasField("int_slice"):
        fields["intSlice"] = {"ints": list(value.int_slice.ints)}
    if value.HasField("string_slice"):
        fields["stringSlice"] = {"strings": list(value.string_slice.strings)}
    return fields


def _message(model: Object) -> Any:
    instances = [
        messages.NamedResourcesInstance(
            name=instance["name"],
            attributes=[
                messages.NamedResourcesAttribute(name=attribute["name"], value=_value_message(attribute))
                for attribute in instance.get("attributes") or ()
            ],
        )
        for instance in model["namedResources"]["instances"]
    ]
    return messages.ResourceModel(named_resources=messages.NamedResourcesResources(instances=instances))


def _value_message(attribute: Object) -> Any:
    fields: dict[str, Any] = {name: attribute[name] for name in _SCALARS if name in attribute}
    if "quantity" in attribute:
        fields["quantity"] = messages.Quantity(string=attribute["quantity"])
    if "intSlice" in attribute:
        fields["int_slice"] = messages.NamedResourcesIntSlice(ints=attribute["intSlice"]["ints"])
    if "stringSlice" in attribute:
        strings = attribute["stringSlice"]["strings"]
        fields["string_slice"] = messages.NamedResourcesStringSlice(strings=strings)
    return messages.NamedResourcesAttributeValue(**fields)
