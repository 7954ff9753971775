"""Sets a pod's service account, which must exist, and adds that account's token and pull secrets.

Source: k8s.io/kubernetes/plugin/pkg/admission/serviceaccount/admission.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.errors import GroupResource, not_found
from kubeskew.apimachinery.names import resource_name_error
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.authorization.graph import secret_names
from kubeskew.apiserver.caching.store_cache import ParsedObjects
from kubeskew.apiserver.storage.records import Key

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
MIRROR = "kubernetes.io/config.mirror"
_ENFORCED = "kubernetes.io/enforce-mountable-secrets"
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_SECONDS = 3607  # one hour, marked by 7 s: the token may be used for longer, with a warning
_REMEMBERED = 1000
_LOOK_UPS = 10  # for the default account, which a controller makes
_PAUSE = (0.1, 0.2)  # between them, seconds


class ServiceAccount(Plugin):
    """Fills in a new pod, and limits the secrets it refers to where its account demands it."""

    waits = True
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods"})
    subresources = frozenset({"", "ephemeralcontainers"})

    def __init__(self, services: AdmissionServices) -> None:
        self._store = services.store
        self._clock = services.environment.clock
        self._entropy = services.environment.entropy
        self._parsed = ParsedObjects(_REMEMBERED)

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None or attributes.operation != CREATE or attributes.subresource:
            return
        if not _is_mirror(pod):
            spec = pod["spec"]
            name = spec["serviceAccountName"] = spec.get("serviceAccountName") or DEFAULT
            spec["serviceAccount"] = name  # the old name of the field, which v1 repeats
            account = await self._account(attributes, name)
            if _mounts(account, spec):
                self._mount(spec)
            secrets = account.get("imagePullSecrets")
            if secrets and not spec.get("imagePullSecrets"):
                spec["imagePullSecrets"] = [
                    {"name": secret["name"]} if secret.get("name") else {} for secret in secrets
                ]
            _check_secrets(attributes, account, created=True)
        else:
            _check_mirror(attributes, pod)

    async def validate(self, attributes: Attributes) -> None:
        pod = attributes.object
        created = attributes.operation == CREATE and not attributes.subresource
        if pod is None or not (created or attributes.subresource == "ephemeralcontainers"):
            return
        if created and _is_mirror(pod):
            _check_mirror(attributes, pod)
            return
        name = pod["spec"].get("serviceAccountName") or ""
        if not name:
            pod_name = f"{attributes.namespace}/{pod['metadata'].get('name') or ''}"
            raise attributes.refuse(f"no service account specified for pod {pod_name}")
        _check_secrets(attributes, await self._account(attributes, name), created=created)

    async def _account(self, attributes: Attributes, name: str) -> Object:
        """Looks several times for the default account, which a controller may be creating; raises 403."""
        key = Key("serviceaccounts", attributes.namespace, name)
        least, most = _PAUSE
        pause = 0.0
        for attempt in range(_LOOK_UPS if name == DEFAULT else 1):
            entry = self._store.get(key)
            if entry is None:
                if attempt:
                    pause = pause or least + (most - least) * self._entropy.random()
                    await self._clock.sleep(pause)
                await self._store.refresh()
                entry = self._store.get(key)
            if entry is not None:
                return self._parsed.of(entry)
        # The client with which upstream looks it up may not be able to ask for such a name.
        why = resource_name_error(name) or not_found(GroupResource("", "serviceaccount"), name).message
        raise attributes.refuse(f"error looking up service account {attributes.namespace}/{name}: {why}")

    def _mount(self, spec: Object) -> None:
        volumes: list[Object] = spec.get("volumes") or []
        present = next(
            (volume["name"] for volume in volumes if volume.get("name", "").startswith(VOLUME_PREFIX)), ""
        )
        name = present or VOLUME_PREFIX + self._entropy.suffix()
        needed = False
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            mounts = container.get("volumeMounts") or []
            if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
                container["volumeMounts"] = [
                    *mounts,
                    {"name": name, "readOnly": True, "mountPath": MOUNT_PATH},
                ]
                needed = True
        if needed and not present:
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]


def _token_volume() -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 0o644,
    }


def _is_mirror(pod: Object) -> bool:
    return MIRROR in (pod["metadata"].get("annotations") or {})


def _mounts(account: Object, spec: Object) -> bool:
    """The pod's field comes first, then the account's; tokens are mounted by default."""
    for holder in (spec, account):
        wanted = holder.get("automountServiceAccountToken")
        if wanted is not None:
            return bool(wanted)
    return True


def _check_mirror(attributes: Attributes, pod: Object) -> None:
    """Raises 403 for a mirror pod with an account or secrets: its node runs it from a file."""
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        raise attributes.refuse("a mirror pod may not reference service accounts")
    if next(secret_names(spec), None) is not None:
        raise attributes.refuse("a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                raise attributes.refuse("a mirror pod may not use ServiceAccountToken volume projections")


def _check_secrets(attributes: Attributes, account: Object, *, created: bool) -> None:
    """Raises 403 if the account limits the secrets of its pods, and this pod refers to another."""
    pod = attributes.object
    if pod is not None and (account["metadata"].get("annotations") or {}).get(_ENFORCED) in _TRUE:
        problem = next(_unlisted(account, pod["spec"], created=created), "")
        if problem:
            raise attributes.refuse(problem)


def _unlisted(account: Object, spec: Object, *, created: bool) -> Iterator[str]:
    name = account["metadata"]["name"]
    listed = {secret.get("name") for secret in account.get("secrets") or ()}
    end = f"is not allowed because service account {name} does not reference that secret"
    if not created:
        yield from _unlisted_in(spec, "ephemeralContainers", "ephemeral container", listed, end)
        return
    for volume in spec.get("volumes") or ():
        secret = (volume.get("secret") or {}).get("secretName") or ""
        if volume.get("secret") is not None and secret not in listed:
            yield f'volume with secret.secretName="{secret}" {end}'
    yield from _unlisted_in(spec, "initContainers", "init container", listed, end)
    yield from _unlisted_in(spec, "containers", "container", listed, end)
    pulled = {secret.get("name") for secret in account.get("imagePullSecrets") or ()}
    for position, reference in enumerate(spec.get("imagePullSecrets") or ()):
        if reference.get("name") not in pulled:
            yield (
                f'imagePullSecrets[{position}].name="{reference.get("name") or ""}" is not allowed '
                f"because service account {name} does not reference that imagePullSecret"
            )


def _unlisted_in(spec: Object, field: str, what: str, listed: set[str | None], end: str) -> Iterator[str]:
    for container in spec.get(field) or ():
        start = f"{what} {container.get('name') or ''} with"
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None and reference.get("name") not in listed:
                secret = f'secret.secretName="{reference.get("name") or ""}"'
                yield f"{start} envVar {variable.get('name') or ''} referencing {secret} {end}"
        for source in container.get("envFrom") or ():
            reference = source.get("secretRef")
            if reference is not None and reference.get("name") not in listed:
                yield f'{start} envFrom referencing secret.secretName="{reference.get("name") or ""}" {end}'
