"""Makes each controller's client, with a service account of its own as with
--use-service-account-credentials.

Source: k8s.io/controller-manager/pkg/clientbuilder/client_builder_dynamic.go and
cmd/kube-controller-manager/app, 1.36.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig
from kubeskew.apimachinery.client.refs import SERVICE_ACCOUNTS
from kubeskew.apimachinery.client.rest import APIClient, Dial, dial
from kubeskew.apimachinery.client.transport import MAX_REQUESTS, Request, Response, Transport
from kubeskew.apimachinery.client.typed import Decode, as_is
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError, is_reason

NAMESPACE = "kube-system"
_SECONDS = 3600
_RENEW_SECONDS = 0.8 * _SECONDS
_UNAUTHORIZED = 401

# The accounts whose names differ from their controllers'.
_ACCOUNTS = {
    "certificatesigningrequest-approving-controller": "certificate-controller",
    "certificatesigningrequest-cleaner-controller": "certificate-controller",
    "certificatesigningrequest-signing-controller": "certificate-controller",
    "daemonset-controller": "daemon-set-controller",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-mirroring-controller": "endpointslicemirroring-controller",
    "garbage-collector-controller": "generic-garbage-collector",
    "horizontal-pod-autoscaler-controller": "horizontal-pod-autoscaler",
    "node-lifecycle-controller": "node-controller",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "pod-garbage-collector-controller": "pod-garbage-collector",
    "replicationcontroller-controller": "replication-controller",
    "resourceclaim-controller": "resource-claim-controller",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "serviceaccount-controller": "service-account-controller",
    "taint-eviction-controller": "node-controller",
}
Wrap = Callable[[Transport, str], Transport]

# Upstream gives these the manager's own credentials.
_OWN = frozenset({"serviceaccount-token-controller"})


def account_of(controller: str) -> str | None:
    """Returns the service account that a controller runs as; None for those that run as the manager
    itself."""
    return None if controller in _OWN else _ACCOUNTS.get(controller, controller)


class AccountClients:
    """Makes the client of each controller. `root` is the manager's own, which asks for tokens."""

    def __init__(
        self,
        root: APIClient,
        config: Kubeconfig,
        clock: Clock,
        agent: str,
        wrap: Wrap | None = None,
        *,
        dial: Dial = dial,
        decode: Decode = as_is,
    ) -> None:
        """`wrap` may put something in front of the transport of an account, whose user name it is told.

        `decode` is what `APIClient` says.
        """
        bare = replace(config, certificate=b"", key=b"", token="")
        self._root = root
        self._clock = clock
        self._agent = agent
        self._wrap = wrap
        self._decode = decode
        self._transport = dial(bare, MAX_REQUESTS)
        self._clients: dict[str, APIClient] = {}

    def of(self, controller: str) -> APIClient:
        """Returns the client of a controller, by its name."""
        account = account_of(controller)
        if account is None:
            return self._root
        client = self._clients.get(account)
        if client is None:
            user = f"system:serviceaccount:{NAMESPACE}:{account}"
            transport: Transport = AccountTransport(self._root, self._transport, self._clock, account)
            if self._wrap is not None:
                transport = self._wrap(transport, user)
            agent = f"{self._agent}/{user}"
            headers = {"User-Agent": agent}
            client = APIClient(transport, clock=self._clock, headers=headers, decode=self._decode)
            self._clients[account] = client
        return client

    async def close(self) -> None:
        await self._transport.close()


class AccountTransport:
    """Sends requests with the token of an account of kube-system, which is created if it does not exist."""

    def __init__(self, root: APIClient, inner: Transport, clock: Clock, account: str) -> None:
        self._root = root
        self._inner = inner
        self._clock = clock
        self._account = account
        self._token = ""
        self._renewal = 0.0
        self._asking = asyncio.Lock()

    async def __call__(self, request: Request) -> Response:
        token = await self._current("")
        response = await self._send(request, token)
        if response.status == _UNAUTHORIZED:  # the account was deleted, or the server has another key
            await response.close()
            response = await self._send(request, await self._current(token))
        return response

    async def close(self) -> None:
        """Does nothing: the transport below is shared."""

    async def _send(self, request: Request, token: str) -> Response:
        headers = {**request.headers, "Authorization": f"Bearer {token}"}
        return await self._inner(replace(request, headers=headers))

    async def _current(self, refused: str) -> str:
        """Returns a token that is not about to expire and is not the refused one."""
        async with self._asking:
            if not self._token or self._token == refused or self._clock.monotonic() > self._renewal:
                self._token = await self._ask()
                self._renewal = self._clock.monotonic() + _RENEW_SECONDS
            return self._token

    async def _ask(self) -> str:
        try:
            return await self._request_token()
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                raise
        metadata = {"name": self._account, "namespace": NAMESPACE}
        try:
            await self._root.create(
                SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            )
        except StatusError as error:
            if not is_reason(error, "AlreadyExists"):
                raise
        return await self._request_token()

    async def _request_token(self) -> str:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _SECONDS},
        }
        made = await self._root.create(
            SERVICE_ACCOUNTS, body, NAMESPACE, name=self._account, subresource="token"
        )
        return str(made["status"]["token"])
