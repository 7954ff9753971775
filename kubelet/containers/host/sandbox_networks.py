"""The addresses and network namespaces of a node's sandboxes."""

import asyncio
import contextlib
import errno
import hashlib
from collections.abc import Callable, Container, Mapping
from ipaddress import IPv4Network
from typing import Any, Protocol

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError, PodSandboxConfig

_ADDRESS_TRIES = 250
_WAIT_SECONDS = 30.0  # for which a node waits for the network, which may start with it
_POLL_SECONDS = 0.1


class PodNamespace(Protocol):
    @property
    def network(self) -> int: ...

    def close(self) -> None: ...


class PodNetworks(Protocol):
    """Makes the network namespaces of pods; `apimachinery.process.network_agent` has one."""

    def is_there(self) -> bool:
        """The agent answers."""
        ...

    def namespaces(self) -> tuple[int, int]: ...

    def add_pod(self, uid: str, address: str, sysctls: Mapping[str, str] | None = None) -> PodNamespace: ...

    def add_node(self, name: str, address: str) -> PodNamespace: ...

    def remove_pod(self, uid: str) -> None: ...


class AddressInUseError(ContainerRuntimeError):
    """Another pod of the cluster has the address."""


class SandboxNetworks:
    """Gives each sandbox of a node an address, and a namespace in the cluster's network if there is one."""

    def __init__(
        self,
        node_name: str,
        node_address: str,
        networks: PodNetworks | None,
        addresses: IPv4Network | None,
        clock: Clock,
    ) -> None:
        self._node_name, self._node_address = node_name, node_address
        self._networks = networks
        self._clock = clock
        digest = hashlib.sha256(node_name.encode()).digest()
        self.addresses = addresses or IPv4Network(f"10.{128 + digest[0] % 120}.{digest[1]}.0/24")
        self._last_host = 1

    @property
    def there_is_one(self) -> bool:
        """False: each pod has a network of its own, or the machine's, and reaches no other pod."""
        return self._networks is not None

    async def until_there(self) -> None:
        """Waits for the network's agent; if none comes in time, sandboxes fail until it does."""
        if self._networks is None:
            return
        ends = self._clock.monotonic() + _WAIT_SECONDS
        while not await asyncio.to_thread(self._networks.is_there) and self._clock.monotonic() < ends:
            await self._clock.sleep(_POLL_SECONDS)

    async def namespaces(self) -> tuple[int, ...]:
        """Descriptors of the network's user namespace and network namespace, which the caller closes; none
        without a network. Raises ContainerRuntimeError."""
        if self._networks is None:
            return ()
        try:
            return await asyncio.to_thread(self._networks.namespaces)
        except OSError as error:
            raise ContainerRuntimeError(f"the network of pods cannot be had: {error}") from error

    def continue_after(self, address: str) -> None:
        """The next address is the one after that of the newest sandbox."""
        if address.count(".") == 3:
            self._last_host = int(address.rpartition(".")[2])

    async def join(
        self, config: PodSandboxConfig, used: Callable[[], Container[str]]
    ) -> tuple[PodNamespace | None, str]:
        """The pod's network namespace, unless it gets one of its own without a network, and its address.

        `used` has the addresses of the node's other sandboxes. Raises ContainerRuntimeError.
        """
        if config.host_network and self._node_address:
            if self._networks is None:
                return None, self._node_address
            add_node = self._networks.add_node
            return await _set_up(add_node, self._node_name, self._node_address), self._node_address
        await self.leave(config.uid)  # what a sandbox before, or one that failed, has left
        for _try in range(_ADDRESS_TRIES):
            address = self._next_address(used())
            if self._networks is None:
                return None, address
            try:
                sysctls = of_network(config.sysctls)
                return await _set_up(self._networks.add_pod, config.uid, address, sysctls), address
            except AddressInUseError:
                continue
        raise ContainerRuntimeError("failed to setup network for sandbox: all addresses are in use")

    async def leave(self, pod_uid: str) -> None:
        if self._networks is not None:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._networks.remove_pod, pod_uid)

    def _next_address(self, used: Container[str]) -> str:
        """The next address after the last one, as the CNI plugin host-local gives them out."""
        hosts = self.addresses.num_addresses - 3  # neither the network, the gateway nor the broadcast
        for step in range(1, hosts + 1):
            host = 2 + (self._last_host - 2 + step) % hosts
            if str(self.addresses[host]) not in used:
                self._last_host = host
                return str(self.addresses[host])
        raise ContainerRuntimeError(
            "failed to setup network for sandbox: plugin failed (add): failed to allocate for range 0: "
            f"no IP addresses available in range set: {self.addresses[1]}-{self.addresses[-2]}"
        )


def of_network(sysctls: Mapping[str, str]) -> dict[str, str]:
    """Those that belong to a network namespace."""
    return {name: value for name, value in sysctls.items() if name.startswith(("net.", "net/"))}


async def _set_up(add: Callable[..., PodNamespace], *arguments: Any) -> PodNamespace:
    """Raises ContainerRuntimeError."""
    try:
        return await asyncio.to_thread(add, *arguments)
    except OSError as error:
        kind = AddressInUseError if error.errno == errno.EADDRINUSE else ContainerRuntimeError
        raise kind(f"failed to setup network for sandbox: {error}") from error
