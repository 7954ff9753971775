"""The controller of ServiceCIDRs: gives each range a finalizer and the condition that it is ready, and lets a
range that is deleted go once no address of a service would lose its last range.

Sources: pkg/controller/servicecidrs/servicecidrs_controller.go, 1.31 to 1.36; pkg/api/servicecidr/
servicecidr.go, 1.36.
"""

import ipaddress
from collections.abc import Callable, Iterator
from functools import partial

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.conditions import find_condition, new_condition
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.servicecidrs.features import ServiceCIDRFeatures

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGER_LABEL = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR = "ipallocator.k8s.io"
# The servers' allocators must have seen that a range is deleted before it goes.
_GRACE_SECONDS = 10.0

_TERMINATING = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def networks(service_cidr: Object) -> Iterator[_Network]:
    """Texts that are no networks are left out."""
    for text in (service_cidr.get("spec") or {}).get("cidrs") or ():
        try:
            yield ipaddress.ip_network(text, strict=False)
        except ValueError:
            continue


def overlaps(one: _Network, other: _Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def contains_network(outer: _Network, inner: _Network) -> bool:
    """A network contains itself."""
    return overlaps(outer, inner) and outer.prefixlen <= inner.prefixlen


def gives(network: _Network, address: _Address) -> bool:
    """Services get neither the address of the network itself nor IPv4's broadcast address."""
    if address == network.network_address:
        return False
    if address.version == 4 and address == network.broadcast_address:
        return False
    return address in network


def _parsed(name: str) -> _Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_managed(address: Object) -> bool:
    """Addresses that a server has allocated to a service; others are not looked at."""
    return (address["metadata"].get("labels") or {}).get(MANAGER_LABEL) == ALLOCATOR


class ServiceCIDRController(Controller):
    name = "service-cidr-controller"
    component = "service-cidr-controller"
    queue_name = "ipaddresses"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = ServiceCIDRFeatures.of(context.environment.gates)
        self._ranges = context.informer(self._features.ranges)
        self._addresses = context.informer(self._features.addresses)
        self._ranges.add_handler(self._added, lambda _, new: self.enqueue(new), self.enqueue)
        self._addresses.add_handler(self._address_changed, lambda _, __: None, self._address_changed)

    def _added(self, service_cidr: Object) -> None:
        """A new range may let others go that it overlaps."""
        self.enqueue(service_cidr)
        for network in networks(service_cidr):
            for other in self._ranges_where(partial(overlaps, network)):
                self.enqueue(other)

    def _address_changed(self, address: Object) -> None:
        """An address that comes or goes keeps its ranges, or keeps them no more."""
        parsed = _parsed(address["metadata"]["name"])
        if _is_managed(address) and parsed is not None:
            for service_cidr in self._giving(parsed):
                self.enqueue(service_cidr)

    def _ranges_where(self, holds: Callable[[_Network], bool]) -> list[Object]:
        """Ranges with a network for which the condition holds, by name."""
        found = [each for each in self._ranges.list() if any(map(holds, networks(each)))]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def _giving(self, address: _Address) -> list[Object]:
        return self._ranges_where(partial(gives, address=address))

    async def sync(self, key: Key) -> None:
        service_cidr = self._ranges.get(*key)
        if service_cidr is None:
            return
        deleted = service_cidr["metadata"].get("deletionTimestamp")
        if not deleted:
            await self._keep(service_cidr)
        elif not self._can_go(service_cidr):
            await self._set_ready(service_cidr, "False", "Terminating", _TERMINATING)
        else:
            waited = (self.clock.now() - parse_timestamp(deleted)).total_seconds()
            if waited < _GRACE_SECONDS:
                self.queue.add_after(key, _GRACE_SECONDS - waited)
            elif FINALIZER in (service_cidr["metadata"].get("finalizers") or ()):
                await self._patch(key.name, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})

    async def _keep(self, service_cidr: Object) -> None:
        metadata = service_cidr["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            await self._patch(metadata["name"], {"finalizers": [FINALIZER]})
        try:
            await self._set_ready(service_cidr, "True", "", "Kubernetes Service CIDR is ready")
        except (*CONNECTION_ERRORS, StatusError):
            text = "The ServiceCIDR Status can not be set to Ready=True"
            self.recorder.event(service_cidr, "Warning", "KubernetesServiceCIDRError", text)
            raise

    def _can_go(self, service_cidr: Object) -> bool:
        """Other ranges contain all its networks, or no address of a service has it alone."""
        name = service_cidr["metadata"]["name"]
        contained = True
        for network in networks(service_cidr):
            outer = self._ranges_where(partial(contains_network, inner=network))
            if [each["metadata"]["name"] for each in outer] in ([], [name]):
                contained = False
        if contained:
            return True
        families = {f"IPv{network.version}" for network in networks(service_cidr)}
        return not any(
            self._has_alone(name, address)
            for address in self._addresses.list()
            if _is_managed(address) and address["metadata"]["labels"].get(FAMILY_LABEL) in families
        )

    def _has_alone(self, name: str, address: Object) -> bool:
        parsed = _parsed(address["metadata"]["name"])
        return parsed is not None and [each["metadata"]["name"] for each in self._giving(parsed)] == [name]

    async def _patch(self, name: str, metadata: Object) -> None:
        try:
            await self.client.patch(self._features.ranges, name, "", {"metadata": metadata}, STRATEGIC_PATCH)
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                raise

    async def _set_ready(self, service_cidr: Object, status: str, reason: str, message: str) -> None:
        condition = new_condition("Ready", status, reason, message, self.clock.now())
        current = find_condition(service_cidr, "Ready")
        if self._features.keeps_conditions and current is not None:
            fields = ("status", "reason", "message")
            if all((current.get(field) or "") == condition[field] for field in fields):
                return
        if not reason and not self._features.gives_empty_reason:
            del condition["reason"]
        wanted = {
            "metadata": {"name": service_cidr["metadata"]["name"]},
            "status": {"conditions": [condition]},
        }
        await self.client.apply(
            self._features.ranges, wanted, field_manager=self.name, force=True, subresource="status"
        )
