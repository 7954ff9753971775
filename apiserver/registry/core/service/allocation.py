"""Allocates the address and the node ports of a service, wanted or free ones; the first error is raised.

Source: pkg/registry/core/service (storage/alloc.go, ipallocator, portallocator), 1.36. The one address family
is the range's.
"""

import ipaddress
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupKind, StatusError
from kubeskew.apimachinery.field import child, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.service.traffic import needs_health_check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import addresses

KIND = GroupKind("", "Service")
NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
NODE_PORTS = range(30000, 32768)
_PORTS_TEXT = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
_OUTSIDE = "provided port is not in the valid range. The range of valid ports is " + _PORTS_TEXT
_TAKEN_PORT = "provided port is already allocated"
_TAKEN_ADDRESS = "provided IP is already allocated"
_OTHER_RANGE = "the provided network does not match the current range"
_FULL = "range is full"


class _RefusedError(Exception):
    """Holds the reason for which an address or a port cannot be allocated."""


class Allocation:
    """Allocates for one write of a service, beside what all others have. A dry run takes nothing."""

    def __init__(self, service: Object, ctx: StrategyContext) -> None:
        self._ctx, self._spec = ctx, service["spec"]
        self._name = service["metadata"].get("name") or ""
        self._uid = service["metadata"].get("uid")

    @cached_property
    def _others(self) -> list[Object]:
        others = self._ctx.list_entries("services", None)
        return [other.get("spec") or {} for other in others if other["metadata"].get("uid") != self._uid]

    @cached_property
    def _addresses(self) -> set[str]:
        return {address for spec in self._others for address in spec.get("clusterIPs") or ()}

    @cached_property
    def _ports(self) -> set[int]:
        """Returns the node ports of others, and those that this write has taken so far."""
        checked = {spec.get("healthCheckNodePort") or 0 for spec in self._others}
        return checked.union(*map(node_ports, self._others))

    def create(self) -> None:
        self._allocate_address()
        if self._spec.get("type") in NODE_PORT_TYPES:
            self._begin_ports()
        if needs_health_check(self._spec):
            self._allocate_health_port()

    def update(self, before: Object) -> None:
        """Allocates for an update; `before`: the old spec. An address stays for good, once there is one."""
        if before.get("type") == "ExternalName":
            self._allocate_address()
        if self._spec.get("type") in NODE_PORT_TYPES:
            self._continue_ports(set(node_ports(before)))
        if needs_health_check(self._spec) and not needs_health_check(before):
            self._allocate_health_port()

    # --- addresses -----------------------------------------------------------------------------------------

    def _allocate_address(self) -> None:
        wanted = self._spec.get("clusterIPs") or []
        if wanted[:1] == ["None"]:
            return
        if not wanted:
            with self._counted(self._count_address, "dynamic"):
                wanted = [self._next_address()]
        else:
            try:
                with self._counted(self._count_address, "static"):
                    self._take_address(wanted[0])
            except _RefusedError as why:
                text = f"failed to allocate IP {wanted[0]}: {why}"
                raise self._invalid("spec.clusterIPs", wanted, text) from why
        self._spec["clusterIP"], self._spec["clusterIPs"] = wanted[0], wanted

    def _take_address(self, text: str) -> None:
        network = ipaddress.ip_network(self._ctx.service_ip_range)
        address = addresses.parse(text)
        ends = {network.network_address} | ({network.broadcast_address} if network.version == 4 else set())
        if address is None or address not in network or address in ends:
            if self._ctx.features.services.several_ranges and not self._ctx.dry_run:
                raise _RefusedError(_OTHER_RANGE)
            where = f"The range of valid IPs is {network}"
            raise _RefusedError(f"the provided IP ({address}) is not in the valid range. {where}")
        if text in self._addresses and not self._ctx.dry_run:
            raise _RefusedError(_TAKEN_ADDRESS)

    def _next_address(self) -> str:
        network = ipaddress.ip_network(self._ctx.service_ip_range)
        if self._ctx.dry_run:
            return str(network.network_address)
        count = network.num_addresses - (2 if network.version == 4 else 1)
        reserved = _reserved(count, most=256, step=16)
        found = _draw(count, reserved, lambda at: str(network[1 + at]) in self._addresses, self._random)
        if found is None:
            raise errors.internal(f"failed to allocate a serviceIP: {_FULL}")
        return str(network[1 + found])

    # --- counting ------------------------------------------------------------------------------------------

    @contextmanager
    def _counted(self, count: Callable[..., None], scope: str) -> Iterator[None]:
        """Counts an allocation that the context makes, or fails to make; a dry run makes none."""
        try:
            yield
        except (_RefusedError, StatusError):
            count(scope, failed=True)
            raise
        count(scope, failed=False)

    def _count_address(self, scope: str, *, failed: bool) -> None:
        if self._ctx.counted is not None and not self._ctx.dry_run:
            timed = self._ctx.features.services.several_ranges
            self._ctx.counted.address(self._ctx.service_ip_range, scope, failed=failed, timed=timed)

    def _count_port(self, scope: str, *, failed: bool) -> None:
        if self._ctx.counted is not None and not self._ctx.dry_run:
            self._ctx.counted.port(scope, failed=failed)

    # --- node ports ----------------------------------------------------------------------------------------

    def _begin_ports(self) -> None:
        """Allocates the node ports of a new service: entries for one port, of several protocols,
        share one.
        """
        ports, given = self._spec.get("ports") or [], dict[int, int]()
        for position, port in enumerate(ports):
            asked, number = port.get("nodePort") or 0, port.get("port") or 0
            if not asked and not self._gives_ports():
                continue
            shared = given.get(number)
            if shared is None:
                same = (port.get("nodePort") for port in ports if (port.get("port") or 0) == number)
                wanted = next(filter(None, same), 0)
                if wanted:
                    self._take_port(wanted, position)
                port["nodePort"] = given[number] = wanted or self._next_port()
            elif not asked:
                port["nodePort"] = shared
            elif asked != shared:
                self._take_port(asked, position)

    def _continue_ports(self, own: set[int]) -> None:
        """Allocates for a service that has the node ports `own`, which nothing new gets until
        they are free.
        """
        taken, seen = set(own), set[tuple[str, int]]()
        for position, port in enumerate(self._spec.get("ports") or []):
            asked = port.get("nodePort") or 0
            if not asked and not self._gives_ports():
                continue
            if not asked:
                port["nodePort"] = self._next_port(own)
            elif asked not in taken:
                self._take_port(asked, position)
                taken.add(asked)
            entry = (port.get("protocol") or "", port["nodePort"])
            if entry in seen:
                raise StatusError(500, "", f"duplicate nodePort: {{{entry[0]} {entry[1]}}}")
            seen.add(entry)

    def _gives_ports(self) -> bool:
        return (
            self._spec.get("type") == "NodePort"
            or self._spec.get("allocateLoadBalancerNodePorts") is not False
        )

    def _take_port(self, number: int, position: int) -> None:
        try:
            self._take(number)
        except _RefusedError as why:
            raise self._invalid(child(index("spec.ports", position), "nodePort"), number, str(why)) from why

    def _take(self, number: int) -> None:
        with self._counted(self._count_port, "static"):
            self._check_port(number)
        self._ports.add(number)

    def _check_port(self, number: int) -> None:
        if number not in NODE_PORTS and not self._ctx.dry_run:
            raise _RefusedError(_OUTSIDE)
        if number in self._ports:
            raise _RefusedError(_TAKEN_PORT)

    def _next_port(self, own: Collection[int] = ()) -> int:
        with self._counted(self._count_port, "dynamic"):
            number = self._draw_port(own)
        self._ports.add(number)
        return number

    def _draw_port(self, own: Collection[int]) -> int:
        taken = self._ports.union(own)
        if self._ctx.dry_run:  # upstream makes a number up
            return max(self._ports | {NODE_PORTS[-1]}) + 1
        count, start = len(NODE_PORTS), NODE_PORTS.start
        reserved = _reserved(count, most=128, step=32)
        found = _draw(count, reserved, lambda at: start + at in taken, self._random)
        if found is None:
            raise errors.internal(f"failed to allocate a nodePort: {_FULL}")
        return start + found

    def _allocate_health_port(self) -> None:
        number = self._spec.get("healthCheckNodePort") or 0
        if not number:
            self._spec["healthCheckNodePort"] = self._next_port()
            return
        try:
            self._take(number)
        except _RefusedError as why:
            text = f"failed to allocate requested HealthCheck NodePort {number}: {why}"
            raise errors.internal(text) from why

    def _random(self) -> float:
        return self._ctx.entropy.random()

    def _invalid(self, path: str, value: object, why: str) -> StatusError:
        return errors.invalid(KIND, self._name, [invalid(path, value, why)])


def node_ports(spec: Object) -> list[int]:
    return [int(port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")]


def _reserved(count: int, *, most: int, step: int) -> int:
    """Returns the number of values at the start kept for static requests (calculateRangeOffset)."""
    return 0 if count <= 16 else min(max(16, count // step), most)


def _draw(
    count: int, reserved: int, is_taken: Callable[[int], bool], random: Callable[[], float]
) -> int | None:
    """Returns a free one of `count` at random, of the reserved only if there is no other; None if all are
    taken.
    """
    for start, size in ((reserved, count - reserved), (0, reserved)):
        offset = int(random() * size)
        for at in range(size):
            found = start + (offset + at) % size
            if not is_taken(found):
                return found
    return None
