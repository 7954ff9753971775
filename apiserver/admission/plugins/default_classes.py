"""Sets the default class of claims and ingresses without one: the newest, if there are several.

Source: k8s.io/kubernetes/plugin/pkg/admission/{storage/storageclass/setdefault,network/defaultingressclass},
1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, Attributes, Plugin
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.storage.interfaces import Store

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_STORAGE = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)


class _Default:
    """The name is empty if no object is marked as the default."""

    def __init__(self, store: Store, resource: str, annotations: tuple[str, ...]) -> None:
        self._annotations = annotations
        self._name = DerivedFromStore(store, [resource], self._find)

    def name(self) -> str:
        return self._name.get()

    def _find(self, objects: list[Object]) -> str:
        marked = [obj["metadata"] for obj in objects if self._is_marked(obj["metadata"])]
        names = sorted(metadata["name"] for metadata in marked)
        created = {metadata["name"]: metadata.get("creationTimestamp") or "" for metadata in marked}
        return max(names, key=lambda name: created[name], default="")

    def _is_marked(self, metadata: Object) -> bool:
        annotations = metadata.get("annotations") or {}
        return any(annotations.get(name) == "true" for name in self._annotations)


class DefaultStorageClass(Plugin):
    """A claim keeps an empty storageClassName: that asks for no class."""

    operations = frozenset({CREATE})
    resources = frozenset({"persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._default = _Default(store, "storageclasses.storage.k8s.io", _DEFAULT_STORAGE)

    async def admit(self, attributes: Attributes) -> None:
        claim = attributes.object
        if claim is None or claim["spec"].get("storageClassName") is not None:
            return
        if _BETA_CLASS in (claim["metadata"].get("annotations") or {}):
            return
        name = self._default.name()
        if name:
            claim["spec"]["storageClassName"] = name


class DefaultIngressClass(Plugin):
    operations = frozenset({CREATE})
    resources = frozenset({"ingresses.networking.k8s.io"})

    def __init__(self, store: Store) -> None:
        self._default = _Default(store, "ingressclasses.networking.k8s.io", _DEFAULT_INGRESS)

    async def admit(self, attributes: Attributes) -> None:
        ingress = attributes.object
        if ingress is None or (ingress.get("spec") or {}).get("ingressClassName") is not None:
            return
        if _INGRESS_CLASS in (ingress["metadata"].get("annotations") or {}):
            return
        name = self._default.name()
        if name:
            ingress.setdefault("spec", {})["ingressClassName"] = name
