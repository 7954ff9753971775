"""Creates in every namespace the service account `default` and the config map with the cluster's CA.

Behaviour of k8s.io/kubernetes/pkg/controller/{serviceaccount,certificates/rootcacertpublisher}, 1.36.
"""

from abc import abstractmethod
from typing import ClassVar

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.pod_control import is_namespace_terminating

ROOT_CA_NAME = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions "
    "of Kubernetes clusters."
)


class _NamespaceObjectController(Controller):
    """Keeps one object of a fixed name in every active namespace."""

    ref: ClassVar[Ref]
    object_name: ClassVar[str]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = context.informer(NAMESPACES)
        self._objects = context.informer(self.ref, field_selector=f"metadata.name={self.object_name}")
        self._namespaces.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        self._objects.add_handler(
            None, lambda _, new: self._enqueue_namespace(new), lambda obj: self._enqueue_namespace(obj)
        )

    @abstractmethod
    def wanted(self) -> Object:
        """Returns the content of the object beside its metadata."""

    def annotations(self) -> dict[str, str]:
        return {}

    def _enqueue_namespace(self, obj: Object) -> None:
        self.queue.add(Key("", obj["metadata"]["namespace"]))

    async def sync(self, key: Key) -> None:
        namespace = self._namespaces.get("", key.name)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        if (namespace.get("status") or {}).get("phase", "Active") != "Active":
            return
        wanted = self.wanted()
        present = self._objects.get(key.name, self.object_name)
        if present is None:
            await self._create(key.name, wanted)
        elif any(present.get(name) != value for name, value in wanted.items()):
            await self.client.update(self.ref, {**present, **wanted})

    async def _create(self, namespace: str, wanted: Object) -> None:
        metadata: Object = {"name": self.object_name, "namespace": namespace}
        if annotations := self.annotations():
            metadata["annotations"] = annotations
        obj = {
            "apiVersion": self.ref.api_version,
            "kind": self.ref.kind,
            "metadata": metadata,
            **wanted,
        }
        try:
            await self.client.create(self.ref, obj)
        except StatusError as error:
            # It exists already, or the namespace is gone or going.
            if error.reason not in ("AlreadyExists", "NotFound") and not is_namespace_terminating(error):
                raise


class ServiceAccountController(_NamespaceObjectController):
    name = "serviceaccount-controller"
    component = "serviceaccount-controller"
    ref = SERVICE_ACCOUNTS
    object_name = "default"

    def wanted(self) -> Object:
        return {}


class RootCAPublisher(_NamespaceObjectController):
    name = "root-ca-certificate-publisher-controller"
    component = "root-ca-certificate-publisher-controller"
    queue_name = "root_ca_cert_publisher"
    ref = CONFIG_MAPS
    object_name = ROOT_CA_NAME

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._root_ca = context.root_ca

    def wanted(self) -> Object:
        return {"data": {"ca.crt": self._root_ca}}

    def annotations(self) -> dict[str, str]:
        return {"kubernetes.io/description": _DESCRIPTION}
