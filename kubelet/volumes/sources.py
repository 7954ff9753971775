"""Collects the files of volumes that come from the API: config maps, secrets, the pod itself, tokens, trust
anchors and certificates, alone or projected into one volume.

Source: pkg/volume/{configmap,secret,downwardapi,projected}, 1.36.
"""

import posixpath
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.downward import DownwardError, field_value, resource_value
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.volumes.atomic_writer import FileProjection
from kubeskew.kubelet.volumes.layout import joined_errors
from kubeskew.kubelet.volumes.objects import MissingError, PodObjects
from kubeskew.kubelet.volumes.ownership import fs_group, fs_user
from kubeskew.kubelet.volumes.tokens import TokenManager
from kubeskew.kubelet.volumes.trust_bundles import TrustBundles

PLUGINS = {  # the fields of volumes that are files of the API, and the plugins' names in paths
    "configMap": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downwardAPI": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
}
_ACCOUNT_VOLUME = "kube-api-access-"
_DEFAULT_MODE = 0o644
_PRIVATE_MODE = 0o600

Files = dict[str, FileProjection]


class SetUpError(ConfigError):
    """A step of setting up a volume failed."""

    def __init__(self, step: str, volume: str, cause: str) -> None:
        super().__init__(f"MountVolume.{step} failed for volume {quoted(volume)} : {cause}")


class PodCertificates(Protocol):
    """Gets certificates for pods."""

    async def credentials(self, pod: Object, volume: str, index: int, source: Object) -> tuple[bytes, bytes]:
        """The private key and the chain of the source at `index` of the volume. Raises ConfigError."""
        ...

    def forget(self, uid: str) -> None: ...


class VolumeSources:
    """Collects the files of one node's pods."""

    def __init__(
        self, objects: PodObjects, tokens: TokenManager, bundles: TrustBundles, certificates: PodCertificates
    ) -> None:
        self._objects = objects
        self._tokens = tokens
        self._bundles = bundles
        self._certificates = certificates

    async def files(self, pod: Object, volume: Object) -> Files:
        """The files of a volume of one of the kinds in PLUGINS. Raises ConfigError."""
        if (projected := volume.get("projected")) is not None:
            return await self._projected(pod, volume["name"], projected)
        if (config_map := volume.get("configMap")) is not None:
            return await self._config_map(pod, config_map, _mode(config_map))
        if (secret := volume.get("secret")) is not None:
            named = {**secret, "name": secret.get("secretName")}
            return await self._secret(pod, named, _mode(secret))
        downward = volume["downwardAPI"]
        return _downward(pod, downward.get("items") or [], _mode(downward))

    async def check(self, pod: Object) -> None:
        """Checks that the config maps and secrets that the pod's volumes need exist, with what these name of
        them, for pods whose files nobody sees. Raises ConfigError."""
        for volume in used_volumes(pod):
            if not volume["name"].startswith(_ACCOUNT_VOLUME):  # every namespace has its config map
                await self._check(pod, volume)

    async def _check(self, pod: Object, volume: Object) -> None:
        checked = volume
        if (projected := volume.get("projected")) is not None:
            sources = [
                each for each in projected.get("sources") or [] if "configMap" in each or "secret" in each
            ]
            checked = {**volume, "projected": {**projected, "sources": sources}}
        elif "configMap" not in volume and "secret" not in volume:
            return
        try:
            await self.files(pod, checked)
        except ConfigError as error:
            raise SetUpError("SetUp", volume["name"], str(error)) from None

    def forget(self, uid: str) -> None:
        """Called when the volumes of a pod are gone."""
        self._objects.forget(uid)
        self._tokens.forget(uid)
        self._certificates.forget(uid)

    async def _projected(self, pod: Object, name: str, projected: Object) -> Files:
        files: Files = {}
        errors = []
        for index, source in enumerate(projected.get("sources") or []):
            try:
                files |= await self._source(pod, name, index, source, _mode(projected))
            except ConfigError as error:
                errors.append(str(error))
        if errors:
            raise ConfigError(joined_errors(errors))
        return files

    async def _source(self, pod: Object, volume: str, index: int, source: Object, mode: int) -> Files:
        if (secret := source.get("secret")) is not None:
            return await self._secret(pod, secret, mode)
        if (config_map := source.get("configMap")) is not None:
            return await self._config_map(pod, config_map, mode)
        if (downward := source.get("downwardAPI")) is not None:
            return _downward(pod, downward.get("items") or [], mode)
        user = fs_user(pod)
        private = _PRIVATE_MODE if user is not None or fs_group(pod) is not None else mode
        if (token := source.get("serviceAccountToken")) is not None:
            text = await self._tokens.token(pod, token)
            return {token["path"]: FileProjection(text.encode(), private, user)}
        if (bundle := source.get("clusterTrustBundle")) is not None:
            anchors = await self._bundles.anchors(bundle)
            return {bundle["path"]: FileProjection(anchors, private, user)}
        if (certificate := source.get("podCertificate")) is not None:
            key, chain = await self._certificates.credentials(pod, volume, index, certificate)
            contents = {"credentialBundlePath": key + chain, "keyPath": key, "certificateChainPath": chain}
            return {
                certificate[field]: FileProjection(content, private, user)
                for field, content in contents.items()
                if certificate.get(field)
            }
        return {}

    async def _config_map(self, pod: Object, source: Object, mode: int) -> Files:
        data = await _read(self._objects.config_map, pod, source)
        return _items(data, source, mode, "configmap references non-existent config key")

    async def _secret(self, pod: Object, source: Object, mode: int) -> Files:
        data = await _read(self._objects.secret, pod, source)
        return _items(data, source, mode, "references non-existent secret key")


async def _read(
    read: Callable[[Object, str], Awaitable[Mapping[str, bytes]]], pod: Object, source: Object
) -> Mapping[str, bytes]:
    try:
        return await read(pod, source.get("name") or "")
    except MissingError:
        if source.get("optional"):
            return {}
        raise


def _items(data: Mapping[str, bytes], source: Object, mode: int, missing: str) -> Files:
    """All keys as files, or those that `items` names, at their paths."""
    items = source.get("items")
    if not items:
        return {key: FileProjection(value, mode) for key, value in data.items()}
    files = {}
    for item in items:
        key = item["key"]
        if key in data:
            files[item["path"]] = FileProjection(data[key], _mode(item, "mode", mode))
        elif not source.get("optional"):
            raise ConfigError(f"{missing}: {key}")
    return files


def _downward(pod: Object, items: list[Object], mode: int) -> Files:
    files, errors = {}, []
    for item in items:
        try:
            text = _downward_text(pod, item)
        except DownwardError as error:
            errors.append(str(error))
            continue
        files[posixpath.normpath(item["path"])] = FileProjection(text.encode(), _mode(item, "mode", mode))
    if errors:
        raise ConfigError(joined_errors(errors))
    return files


def _downward_text(pod: Object, item: Object) -> str:
    if reference := item.get("fieldRef"):
        return field_value(pod, reference["fieldPath"], "", "")
    if reference := item.get("resourceFieldRef"):
        return resource_value(pod, {}, reference)
    return ""


def _mode(source: Object, field: str = "defaultMode", default: int = _DEFAULT_MODE) -> int:
    mode = source.get(field)
    return default if mode is None else int(mode)


def used_volumes(pod: Object) -> list[Object]:
    """The volumes that a container mounts or has as a device: others are never set up."""
    used = {
        mount["name"]
        for container in pod_spec.all_containers(pod)
        for mount in [*(container.get("volumeMounts") or ()), *(container.get("volumeDevices") or ())]
    }
    return [volume for volume in pod["spec"].get("volumes") or [] if volume["name"] in used]
