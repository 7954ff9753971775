"""Reads config maps and secrets for volumes.

One that is marked immutable is read once for as long as a pod of the node has it in a volume: what comes
after it under its name is not seen until then (pkg/kubelet/util/manager/watch_based_manager.go, 1.36).
"""

from collections.abc import Mapping

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, SECRETS, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError, config_map_data, secret_data

_Key = tuple[str, str, str]  # kind, namespace, name


class MissingError(ConfigError):
    """There is no such object."""


class PodObjects:
    """Reads what pods of one node may read."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._immutable: dict[_Key, Object] = {}
        self._users: dict[_Key, set[str]] = {}

    async def config_map(self, pod: Object, name: str) -> Mapping[str, bytes]:
        """Raises MissingError and ConfigError."""
        return config_map_data(await self._object(CONFIG_MAPS, pod, name))

    async def secret(self, pod: Object, name: str) -> Mapping[str, bytes]:
        """Raises MissingError and ConfigError."""
        return secret_data(await self._object(SECRETS, pod, name))

    async def _object(self, ref: Ref, pod: Object, name: str) -> Object:
        key = (ref.kind, pod_spec.namespace_of(pod), name)
        self._users.setdefault(key, set()).add(pod_spec.uid_of(pod))
        known = self._immutable.get(key)
        if known is not None:
            return known
        found = await self.get(ref, name, pod_spec.namespace_of(pod))
        if found.get("immutable"):
            self._immutable[key] = found
        return found

    async def get(self, ref: Ref, name: str, namespace: str = "") -> Object:
        """Raises MissingError and ConfigError."""
        try:
            return await self._client.get(ref, name, namespace)
        except StatusError as error:
            if error.code != 404:
                raise ConfigError(error.message) from None
            raise MissingError(f'{ref.kind.lower()} "{name}" not found') from None
        except CONNECTION_ERRORS as error:
            raise ConfigError(str(error)) from None

    def forget(self, uid: str) -> None:
        """Called when a pod has no volumes any longer."""
        for key in [key for key, users in self._users.items() if uid in users]:
            self._users[key].discard(uid)
            if not self._users[key]:
                del self._users[key]
                self._immutable.pop(key, None)
