"""Builds the environment of a pod's containers from the API's objects.

Source: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables, podFieldSelectorRuntimeValue),
pkg/fieldpath and pkg/kubelet/envvars, 1.36.
"""

import base64
import re
from collections.abc import Callable, Mapping

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, SECRETS, SERVICES, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.downward import DownwardError, field_value, resource_value
from kubeskew.kubelet.containers.expansion import expanded
from kubeskew.kubelet.features import EnvironmentFeatures

_ENV_NAME = re.compile(r"(?!\.\.|\.$)[-._a-zA-Z][-._a-zA-Z0-9]*")
_MASTER_SERVICES = "default"
_SERVICES_UNREAD = "services have not yet been read at least once, cannot construct envvars"


class ConfigError(Exception):
    """A container cannot be configured, or a volume not be set up; the text is for the pod's owner."""


class EncodingError(ConfigError):
    """A container cannot be described to the runtime."""


class PodContents:
    """Reads what variables of one node's pods are made of."""

    def __init__(self, client: APIClient, host_ip: str, features: EnvironmentFeatures) -> None:
        self._client = client
        self._has_read_services = False
        self._host_ip = host_ip
        self._features = features

    # -- environment

    async def environment(
        self, pod: Object, spec: Object, pod_ip: str, warn: Callable[[str], None]
    ) -> dict[str, str]:
        """Returns a container's environment from `envFrom` and `env`. Raises ConfigError.

        `warn` is called with what the pod is told of names that are no variable's.
        A value may be any bytes. In some releases the runtime cannot be told of one that is no UTF-8
        (issues 136323 and 139132); here its bytes are replaced, as programs read text.
        """
        await self._read_services(pod)
        found: dict[str, str] = {}
        for source in spec.get("envFrom") or []:
            found |= await self._env_from(pod, source, warn)
        for entry in spec.get("env") or []:
            value = await self._value(pod, spec, entry, found, pod_ip)
            if value is not None:
                found[entry["name"]] = value
        words = [*(spec.get("command") or ()), *(spec.get("args") or ())]
        told = [
            *found.values(),
            *(expanded(word, found, cuts=self._features.cuts_characters) for word in words),
        ]
        if self._features.refuses_binary and not all(map(_is_text, told)):
            raise EncodingError("grpc: error while marshaling: string field contains invalid UTF-8")
        return {
            name: value.encode(errors="surrogateescape").decode(errors="replace")
            for name, value in found.items()
        }

    async def _env_from(self, pod: Object, source: Object, warn: Callable[[str], None]) -> dict[str, str]:
        prefix = source.get("prefix") or ""
        reference = source.get("configMapRef") or source.get("secretRef") or {}
        ref = CONFIG_MAPS if "configMapRef" in source else SECRETS
        data = await self._data(ref, pod, reference)
        if data is None:
            return {}
        texts = {f"{prefix}{name}": value.decode(errors="surrogateescape") for name, value in data.items()}
        if not self._features.skips_names:
            return texts
        skipped = sorted(name for name in texts if not _ENV_NAME.fullmatch(name))
        if skipped:
            kind = "configMap" if ref is CONFIG_MAPS else "secret"
            where = f"{kind} {pod_spec.namespace_of(pod)}/{reference.get('name')}"
            why = "were skipped since they are considered invalid environment variable names."
            warn(f"Keys [{', '.join(skipped)}] from the EnvFrom {where} {why}")
        return {name: text for name, text in texts.items() if name not in skipped}

    async def _value(
        self, pod: Object, spec: Object, entry: Object, known: Mapping[str, str], pod_ip: str
    ) -> str | None:
        source = entry.get("valueFrom")
        if not source:
            return expanded(entry.get("value") or "", known, cuts=self._features.cuts_characters)
        try:
            if reference := source.get("fieldRef"):
                return field_value(pod, reference["fieldPath"], self._host_ip, pod_ip)
            if reference := source.get("resourceFieldRef"):
                return resource_value(pod, spec, reference)
        except DownwardError as error:
            raise ConfigError(str(error)) from None
        ref, reference = (CONFIG_MAPS, source.get("configMapKeyRef")) if "configMapKeyRef" in source else (
            SECRETS, source.get("secretKeyRef")
        )  # fmt: skip
        if not reference:
            return None
        data = await self._data(ref, pod, reference)
        if data is None:
            return None
        if reference["key"] not in data:
            if reference.get("optional"):
                return None
            where = f"{pod_spec.namespace_of(pod)}/{reference['name']}"
            raise ConfigError(f"couldn't find key {reference['key']} in {ref.kind} {where}")
        return data[reference["key"]].decode(errors="surrogateescape")

    async def _read_services(self, pod: Object) -> None:
        """Makes sure that the API server lists services as the kubelet asks for them.

        Up to 1.30 a server does not know the selector of kubelets since 1.31. Pods other than static ones
        then wait (makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go, 1.31). A server that cannot be
        reached does not hold them: a real kubelet has read the services at its start. Raises ConfigError.
        """
        if self._has_read_services or pod_spec.is_static(pod):
            return
        try:
            await self._client.list(
                SERVICES, field_selector=self._features.service_selector, limit=1, metadata_only=True
            )
        except StatusError as error:
            raise ConfigError(_SERVICES_UNREAD) from error
        except CONNECTION_ERRORS:
            return
        self._has_read_services = True

    async def service_links(self, pod: Object) -> dict[str, str]:
        """Returns the variables for the namespace's services and the API server's (envvars.FromServices)."""
        namespace = pod_spec.namespace_of(pod)
        try:
            services = list((await self._client.list(SERVICES, _MASTER_SERVICES))["items"])
            services = [service for service in services if service["metadata"]["name"] == "kubernetes"]
            if pod["spec"].get("enableServiceLinks", True):
                services += (await self._client.list(SERVICES, namespace))["items"]
        except (StatusError, *CONNECTION_ERRORS):
            return {}  # like a kubelet that has not seen the services yet
        found: dict[str, str] = {}
        for service in services:
            found |= _links(service)
        return found

    # -- objects

    async def _data(self, ref: Ref, pod: Object, reference: Object) -> dict[str, bytes] | None:
        """Returns the data of a configmap or secret; None if it is missing and optional.

        Raises ConfigError.
        """
        name = str(reference.get("name") or "")
        try:
            found = await self._client.get(ref, name, pod_spec.namespace_of(pod))
        except StatusError as error:
            if error.code != 404:
                raise ConfigError(error.message) from None
            if reference.get("optional"):
                return None
            raise ConfigError(f'{ref.kind.lower()} "{name}" not found') from None
        except CONNECTION_ERRORS as error:
            raise ConfigError(str(error)) from None
        return secret_data(found) if ref is SECRETS else config_map_data(found)


def config_map_data(config_map: Object) -> dict[str, bytes]:
    texts = {key: value.encode() for key, value in (config_map.get("data") or {}).items()}
    return {**texts, **_decoded(config_map.get("binaryData"))}


def secret_data(secret: Object) -> dict[str, bytes]:
    return _decoded(secret.get("data"))


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (data or {}).items()}


def _links(service: Object) -> dict[str, str]:
    address, ports = service["spec"].get("clusterIP"), service["spec"].get("ports") or []
    if not address or address == "None" or not ports:
        return {}
    name = service["metadata"]["name"].upper().replace("-", "_")
    first = ports[0]
    found = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(first["port"])}
    for port in ports:
        if port.get("name"):
            found[f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
    protocol = (first.get("protocol") or "TCP").lower()
    found[f"{name}_PORT"] = f"{protocol}://{address}:{first['port']}"
    for port in ports:
        kind = port.get("protocol") or "TCP"
        prefix = f"{name}_PORT_{port['port']}_{kind}"
        found |= {
            prefix: f"{kind.lower()}://{address}:{port['port']}",
            f"{prefix}_PROTO": kind.lower(),
            f"{prefix}_PORT": str(port["port"]),
            f"{prefix}_ADDR": address,
        }
    return found


def _is_text(value: str) -> bool:
    """Decides whether a value was UTF-8: other bytes are surrogates in it."""
    return value.isascii() or not any("\udc80" <= char <= "\udcff" for char in value)
