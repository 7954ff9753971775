"""Keeps account of what a search has taken so far: devices, shares, counters and places in constraints.

Upstream's gaps are kept: up to 1.36.2 a refused device keeps what it has taken of counters and constraints,
and a shared device that is given back keeps its counters (kubernetes 140431). `leaks` counts such events.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/allocator_*.go (allocateDevice), 1.31 … 1.37.
"""

from collections.abc import Callable

from kubeskew.apimachinery.process.go_panic import Panic
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.candidates import Preparation, PreparedClaim
from kubeskew.scheduler.allocator.capacity import taken
from kubeskew.scheduler.allocator.counters import CounterUsage
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.requests import RequestPlan
from kubeskew.scheduler.allocator.slices import Device
from kubeskew.scheduler.allocator.solution import Choice

Undo = Callable[[], None]


class SearchState:
    """The state of one search; claims are known by their index."""

    def __init__(
        self,
        claims: int,
        counters: CounterUsage,
        state: AllocatedState,
        preparation: Preparation,
        features: AllocatorFeatures,
    ) -> None:
        self.choices: list[list[Choice]] = [[] for _ in range(claims)]
        self.leaks = 0
        self.counters = counters
        self.capacity: dict[DeviceID, dict[str, Quantity]] = {}  # taken of shared devices by this search
        self._users: dict[DeviceID, set[int]] = {}  # device → claims
        self._state = state
        self._preparation = preparation
        self._features = features

    def available(self, claim: int, request: RequestPlan, device: Device) -> bool:
        """Returns whether the device is free for the request; admin access ignores other claims, but not
        its own."""
        users = self._users.get(device.id)
        if request.admin_access:
            return not users or claim not in users or not self._features.admin_once_per_claim
        shares = self._features.shares_overlooked or device.shareable
        return not users and self._state.is_free(device.id, shares=shares)

    def fits(self, request: RequestPlan, device: Device) -> bool:
        """Returns whether the device has the capacity that is asked for."""
        return self._preparation.capacity.shortage(request, device, self.capacity.get(device.id)) is None

    def take(
        self,
        claim: int,
        prepared: PreparedClaim,
        request: RequestPlan,
        device: Device,
        number: int,
        *,
        must: bool,
    ) -> Undo | None:
        """Takes the device and returns how to give it back; None if it is not available.

        `number` counts the devices of the request, from 0 on. Raises AllocationError if the device `must` be
        taken but a constraint forbids it.
        """
        if not self.available(claim, request, device):
            return None
        paid = self._features.counters_taken_once and device.shareable and self._is_shared(device)
        counted = bool(device.counters) and not paid
        if device.counters and not self._features.gates.partitionable_devices:
            return None
        if counted and self.counters.take(device) is not None:
            return None
        tolerated = not device.taints or request.untolerated(device) is None
        joined = tolerated and self._join(prepared, request, device, must=must)
        if joined and self.fits(request, self._measured(device, number)):
            return self._record(claim, prepared, request, device, counted=counted)
        self._refuse(prepared, request, device, joined=joined, counted=counted)
        if joined and not device.shareable and self._features.capacity_by_number:
            self._users.setdefault(device.id, set()).add(claim)  # marked already, and never given back
        return None

    def _measured(self, device: Device, number: int) -> Device:
        """Returns the device whose capacity decides in the end; raises Panic if there is none."""
        if not self._features.capacity_by_number:
            return device
        devices = device.slice.devices
        if number >= len(devices):
            raise Panic(f"runtime error: index out of range [{number}] with length {len(devices)}")
        return devices[number]

    def keep(self) -> None:
        """Leaves something taken on stepping back."""
        self.leaks += 1

    def _refuse(
        self, prepared: PreparedClaim, request: RequestPlan, device: Device, *, joined: bool, counted: bool
    ) -> None:
        if self._features.leaves_behind:
            self.leaks += joined + counted
            return
        for constraint in prepared.constraints if joined else ():
            self.leaks += not constraint.remove(request)
        if counted:
            self.counters.give_back(device)

    def _is_shared(self, device: Device) -> bool:
        state = self._state
        known = device.id in state.consumed or device.id in self.capacity
        return known or (device.id in state.shared and not self._features.shares_without_capacity_pay)

    def _join(self, prepared: PreparedClaim, request: RequestPlan, device: Device, *, must: bool) -> bool:
        for index, constraint in enumerate(prepared.constraints):
            if constraint.add(request, device):
                continue
            if must:
                raise request.error(
                    f"cannot add device {device.id} because a claim constraint would not be satisfied"
                )
            for joined in prepared.constraints[:index]:
                self.leaks += not joined.remove(request)
            return False
        return True

    def _record(
        self, claim: int, prepared: PreparedClaim, request: RequestPlan, device: Device, *, counted: bool
    ) -> Undo:
        share, first = None, False
        if device.shareable:
            share = taken(request.capacity, device.capacities, self._preparation.capacity.rounding)
            first = device.id not in self.capacity
            self._share(device, share)
        elif not request.admin_access or self._features.admin_once_per_claim:
            self._users.setdefault(device.id, set()).add(claim)
        before = len(self.choices[claim])
        self.choices[claim].append(Choice(request, device, share))

        def undo() -> None:
            del self.choices[claim][before:]
            for constraint in prepared.constraints:
                self.leaks += not constraint.remove(request)
            if share is not None:
                self._unshare(device, share, first=first, counted=counted)
                return
            self._users.get(device.id, set()).discard(claim)
            if device.counters:
                self.counters.give_back(device)

        return undo

    def _share(self, device: Device, share: dict[str, Quantity]) -> None:
        used = self.capacity.setdefault(device.id, {})
        for name, amount in share.items():
            used[name] = used[name] + amount if name in used else amount

    def _unshare(self, device: Device, share: dict[str, Quantity], *, first: bool, counted: bool) -> None:
        used = self.capacity[device.id]
        for name, amount in share.items():
            used[name] = used[name] - amount
        leaves_behind = self._features.leaves_behind
        unused = share and all(amount.is_zero() for amount in used.values())
        if unused if leaves_behind else first:
            del self.capacity[device.id]
        if leaves_behind:
            self.leaks += counted or not share
        elif counted:
            self.counters.give_back(device)
