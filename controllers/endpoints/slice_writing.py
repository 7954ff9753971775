"""Writes endpoint slices, and keeps track of new ones: the server chooses their names, so none must be
created twice."""

from collections.abc import Iterable

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Key
from kubeskew.controllers.framework.pod_control import is_namespace_terminating

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"


class SliceWriter:
    """Creates and deletes slices, and remembers those that the informer does not show yet."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._made: dict[Key, set[str]] = {}

    def is_behind(self, key: Key, present: Iterable[Object]) -> bool:
        """Returns whether new slices of a service are not in the informer yet; from the second call on
        they count as deleted."""
        return bool(self._made.pop(key, set()) - {slice_["metadata"]["name"] for slice_ in present})

    def forget(self, key: Key) -> None:
        self._made.pop(key, None)

    async def create(self, key: Key, slice_: Object) -> None:
        metadata = {**slice_["metadata"], "generateName": f"{key.name}-", "namespace": key.namespace}
        whole = {"apiVersion": ENDPOINT_SLICES.api_version, "kind": ENDPOINT_SLICES.kind, **slice_}
        try:
            made = await self._client.create(ENDPOINT_SLICES, {**whole, "metadata": metadata})
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise
        else:
            self._made.setdefault(key, set()).add(made["metadata"]["name"])

    async def delete(self, slice_: Object) -> None:
        metadata = slice_["metadata"]
        try:
            await self._client.delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if error.code != 404:
                raise


def service_keys(slice_: Object, manager: str) -> list[str]:
    """Returns the key of the service, for slices of a manager: an index function."""
    metadata = slice_["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != manager or SERVICE_LABEL not in labels:
        return []
    return [f"{metadata['namespace']}/{labels[SERVICE_LABEL]}"]
