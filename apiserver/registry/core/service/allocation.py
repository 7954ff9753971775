"""Allocates the address, its families and the node ports of a service; the first error is raised.

Addresses and ports are those that are wanted, or free ones. The one address family is the range's; families
that a cluster of one family lacks are refused.

Source: pkg/registry/core/service (storage/alloc.go, ipallocator, portallocator), 1.36.
"""

import ipaddress
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupKind, StatusError
from kubeskew.apimachinery.field import FieldError, child, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.service.validation import cluster_ip_errors, needs_health_check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.shared.addresses import is_v6
from kubeskew.apiserver.service_features import ServiceFeatures

_SINGLE = "SingleStack"
_PREFER = "PreferDualStack"
_REQUIRE = "RequireDualStack"
_POLICY = "spec.ipFamilyPolicy"
_OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}
_KINDS = {"clusterIPs": "cluster IP", "ipFamilies": "IP family"}
_SEVERAL = {"clusterIPs": "cluster IPs", "ipFamilies": "IP families"}
KIND = GroupKind("", "Service")
NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
NODE_PORTS = range(30000, 32768)
_PORTS_TEXT = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
_OUTSIDE = "provided port is not in the valid range. The range of valid ports is " + _PORTS_TEXT
_TAKEN_PORT = "provided port is already allocated"
_TAKEN_ADDRESS = "provided IP is already allocated"
_OTHER_RANGE = "the provided network does not match the current range"
_FULL = "range is full"


def complete_families(
    spec: Object, before: Object, family: str, options: ServiceFeatures
) -> list[FieldError]:
    """Policy and families are set; `before` is the old spec (empty at a create), `family` the cluster's."""
    if spec.get("type") == "ExternalName" or _is_same_preference(spec, before):
        return []
    unselected = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        default = _REQUIRE if unselected else _SINGLE
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or default
    if errors := list(cluster_ip_errors(spec, before, options)):
        return errors
    policy = spec["ipFamilyPolicy"]
    errors = [*_released(spec, before, policy), *_too_many(spec, policy), *_inferred(spec, family)]
    if errors:
        return errors
    families: list[str] = spec.get("ipFamilies") or []
    if unselected:
        families = families or [family]
        if len(families) == 1 and policy != _SINGLE:
            families = [*families, _OTHER[families[0]]]
        spec["ipFamilies"] = families
        return []
    spec["ipFamilies"] = families or [family]
    return list(_refused(families, policy, family))


def _is_same_preference(spec: Object, before: Object) -> bool:
    """Nothing follows a change of the cluster if both only prefer two families and agree."""
    names = ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    if spec.get("ipFamilyPolicy") != _PREFER:
        return False
    return all(spec.get(name) == before.get(name) for name in names)


def _released(spec: Object, before: Object, policy: str) -> Iterator[FieldError]:
    for name, what in _KINDS.items():
        now, old = spec.get(name) or [], before.get(name) or []
        if policy == _SINGLE and now == old:
            if len(now) > 1:
                spec[name] = now[:1]
        elif policy != _SINGLE and now and len(now) < len(old):
            yield invalid(_POLICY, policy, f"must be 'SingleStack' to release the secondary {what}")


def _too_many(spec: Object, policy: str) -> Iterator[FieldError]:
    for name, what in _SEVERAL.items():
        if policy == _SINGLE and len(spec.get(name) or []) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            yield invalid(_POLICY, policy, text)


def _inferred(spec: Object, family: str) -> Iterator[FieldError]:
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or [])
    for position, address in enumerate(addresses):
        if address == "None":
            break
        its = "IPv6" if is_v6(address) else "IPv4"
        if position < len(families):
            continue
        if its != family:
            at = index("spec.clusterIPs", position)
            yield invalid(at, addresses, f"{its} is not configured on this cluster")
        else:
            families.append(its)
    if families:
        spec["ipFamilies"] = families


def _refused(families: list[str], policy: str, family: str) -> Iterator[FieldError]:
    if policy == _REQUIRE:
        yield invalid(_POLICY, policy, "this cluster is not configured for dual-stack services")
    for position, listed in enumerate(families):
        if listed != family:
            yield invalid(index("spec.ipFamilies", position), listed, "not configured on this cluster")


class _RefusedError(Exception):
    """The message is the reason for which an address or a port cannot be allocated."""


class Allocation:
    """One write of a service gets what no other service has. A dry run takes nothing."""

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
        checked = {spec.get("healthCheckNodePort") or 0 for spec in self._others}
        return checked.union(*map(node_ports, self._others))

    def create(self) -> None:
        self._allocate_address()
        if self._spec.get("type") in NODE_PORT_TYPES:
            self._begin_ports()
        if needs_health_check(self._spec):
            self._allocate_health_port()

    def update(self, before: Object) -> None:
        """`before` is the old spec. An address stays for good, once there is one."""
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
        """Allocations of the context are counted, made or failed; a dry run makes none."""
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
        """Entries for one port, of several protocols, share a node port."""
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
        """The service has the node ports `own`, which nothing new gets until they are free."""
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
    """Values at the start are kept for static requests (calculateRangeOffset)."""
    return 0 if count <= 16 else min(max(16, count // step), most)


def _draw(
    count: int, reserved: int, is_taken: Callable[[int], bool], random: Callable[[], float]
) -> int | None:
    """One of `count` is drawn at random, of the reserved only if there is no other; None if all are taken."""
    for start, size in ((reserved, count - reserved), (0, reserved)):
        offset = int(random() * size)
        for at in range(size):
            found = start + (offset + at) % size
            if not is_taken(found):
                return found
    return None
