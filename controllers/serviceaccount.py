"""The controllers of service accounts: in each namespace the account `default` and the config map with the
cluster's CA, and tokens in secrets of type service-account-token, from before TokenRequest.

Sources: k8s.io/kubernetes/pkg/controller/{serviceaccount,certificates/rootcacertpublisher}, 1.36;
k8s.io/kubernetes/pkg/controller/serviceaccount/tokens_controller.go and pkg/serviceaccount/legacy.go, 1.36.
"""

import base64
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, Ref
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.pod_control import is_namespace_terminating

if TYPE_CHECKING:
    from kubeskew.apimachinery.security.web_tokens import SigningKey

ROOT_CA_NAME = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions "
    "of Kubernetes clusters."
)
_TYPE = "kubernetes.io/service-account-token"
_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_CLAIM = "kubernetes.io/serviceaccount/"


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
        """Metadata are added by the base class."""

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
            return
        given = present["metadata"].get("annotations") or {}
        own = self.annotations()
        if any(present.get(name) != value for name, value in wanted.items()) or not all(map(given.get, own)):
            metadata = (
                {**present["metadata"], "annotations": {**given, **own}} if own else present["metadata"]
            )
            await self.client.update(self.ref, {**present, **wanted, "metadata": metadata})

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


class AccountTokensController(Controller):
    """Fills secrets of type service-account-token; removes those whose account is gone. Inactive without a
    key.
    """

    name = "serviceaccount-token-controller"
    queue_name = "serviceaccount_tokens_service"
    component = "serviceaccount-token-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pem, self._root_ca = context.account_key, context.root_ca
        self._key: SigningKey | None = None
        if not self._pem:
            return
        self._accounts = context.informer(SERVICE_ACCOUNTS)
        self._secrets = context.informer(SECRETS, field_selector=f"type={_TYPE}")
        self._secrets.add_handler(self.enqueue, lambda _, new: self.enqueue(new))
        self._accounts.add_handler(self._of_account, None, self._of_account)

    def _of_account(self, account: Object) -> None:
        metadata = account["metadata"]
        for secret in self._secrets.list(metadata["namespace"]):
            if _annotations(secret).get(_NAME) == metadata["name"]:
                self.enqueue(secret)

    async def sync(self, key: Key) -> None:
        secret = self._secrets.get(key.namespace, key.name)
        if secret is None or not _annotations(secret).get(_NAME):
            return
        account = await self._account(secret)
        if account is None:
            await self._remove(secret)
        elif wanted := self._missing(secret, account):
            metadata = secret["metadata"]
            annotations = {
                **_annotations(secret),
                _NAME: account["metadata"]["name"],
                _UID: account["metadata"]["uid"],
            }
            data = {**(secret.get("data") or {}), **wanted}
            await self.client.update(
                SECRETS, {**secret, "metadata": {**metadata, "annotations": annotations}, "data": data}
            )

    async def _account(self, secret: Object) -> Object | None:
        """Asks the server if the informer has no account; None if it is gone."""
        namespace, annotations = secret["metadata"]["namespace"], _annotations(secret)
        account = self._accounts.get(namespace, annotations[_NAME])
        if account is None:
            try:
                account = await self.client.get(SERVICE_ACCOUNTS, annotations[_NAME], namespace)
            except StatusError as error:
                if not is_reason(error, "NotFound"):
                    raise
                return None
        uid = annotations.get(_UID)
        return account if not uid or uid == account["metadata"]["uid"] else None

    async def _remove(self, secret: Object) -> None:
        metadata = secret["metadata"]
        preconditions = {"uid": metadata["uid"]}
        try:
            await self.client.delete(
                SECRETS, metadata["name"], metadata["namespace"], preconditions=preconditions
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def _missing(self, secret: Object, account: Object) -> dict[str, str]:
        data, metadata = secret.get("data") or {}, secret["metadata"]
        wanted = {"namespace": _encoded(metadata["namespace"])}
        if self._root_ca:
            wanted["ca.crt"] = _encoded(self._root_ca)
        missing = {name: value for name, value in wanted.items() if data.get(name) != value}
        if not data.get("token"):
            missing["token"] = _encoded(self._token(secret, account))
        return missing

    def _token(self, secret: Object, account: Object) -> str:
        from kubeskew.apimachinery.security.web_tokens import SigningKey  # cryptography is slow to import

        if self._key is None:
            self._key = SigningKey(self._pem)
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        return self._key.sign(
            {
                "iss": "kubernetes/serviceaccount",
                f"{_CLAIM}namespace": namespace,
                f"{_CLAIM}secret.name": secret["metadata"]["name"],
                f"{_CLAIM}service-account.name": name,
                f"{_CLAIM}service-account.uid": account["metadata"]["uid"],
                "sub": f"system:serviceaccount:{namespace}:{name}",
            }
        )


def _annotations(secret: Object) -> dict[str, str]:
    return secret["metadata"].get("annotations") or {}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
