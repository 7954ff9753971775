"""Compares the devices inside of containers with what drivers had prepared, and that with what was allocated.

Which devices each container should have is read from pods and claims, without the help of the components.

Two components stand between the three: a driver, which answers the kubelet and writes CDI specs, and a
kubelet, which gives a container the CDI devices of its requests. A device of kubeskew's drivers shows in a
container as a variable, `<driver>_<request>=<device>,…` (kubelet/drivers/claims.py), or for named resources
`<driver>=<device>,…`; its pool does not show. Of drivers that somebody else wrote nothing is known.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.log import KUBELET, Write, uid_of
from kubeskew.conformance.evidence.nodes import ContainerEvent, DriverCall, NodeRecords
from kubeskew.kubelet.drivers.claims import variable

_DRAFTED = frozenset({"Allocated", "Reallocate"})  # phases of claims that have devices
_SKIPS = frozenset({"*", "NodePrepareResources"})  # KEP-5945: the driver is not called to prepare
CLAIMS = "resourceclaims.resource.k8s.io"
_NOW = timedelta(0)

T = TypeVar("T")
Past = list[tuple[datetime, T]]  # values, each valid from its time on


def named_by_status(pod: ObjectView) -> Any:
    """Picks the parts of a pod's status that name the claims of its containers."""
    status = pod.get("status") or {}
    return status.get("resourceClaimStatuses"), status.get("extendedResourceClaimStatus")


def container_requests(pod: ObjectView, container: str) -> Iterator[tuple[str, str]]:
    """An empty request stands for the whole claim.

    Up to 1.27 the name of a claim from a template follows from pod and entry; later the status has it. Up to
    1.30 an entry has its claim or template in `source`. KEP-3063 as drafted has containers list bare names.
    """
    status = pod.get("status") or {}
    generated = {
        each["name"]: each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or []
    }
    entries = {each["name"]: each for each in (pod.get("spec") or {}).get("resourceClaims") or []}
    for use in (_container(pod, container).get("resources") or {}).get("claims") or []:
        name, request = (use, "") if isinstance(use, str) else (use["name"], use.get("request") or "")
        entry = entries.get(name)
        if entry is None:
            continue
        made = generated.get(name, f"{pod['metadata']['name']}-{name}")
        claim = (entry.get("source") or entry).get("resourceClaimName") or made
        if claim:  # the status may say that none is needed
            yield claim, request
    extended = status.get("extendedResourceClaimStatus") or {}
    for mapping in extended.get("requestMappings") or []:
        if mapping["containerName"] == container:
            yield extended["resourceClaimName"], mapping["requestName"]


def own_variables(pod: ObjectView, container: str) -> set[str]:
    return {each["name"] for each in _container(pod, container).get("env") or []}


def _container(pod: ObjectView, name: str) -> ObjectView:
    spec = pod.get("spec") or {}
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return next((each for kind in kinds for each in spec.get(kind) or [] if each["name"] == name), {})


def allocation_of(status: ObjectView) -> Any:
    """The draft of KEP-3063 has the allocation in the phases of the status."""
    drafted = {"attributes": status.get("attributes")} if status.get("phase") in _DRAFTED else None
    return status.get("allocation") or drafted


def _results(status: ObjectView) -> list[ObjectView]:
    return ((allocation_of(status) or {}).get("devices") or {}).get("results") or []


def _handles(status: ObjectView) -> list[ObjectView]:
    """Handles are of classic DRA, up to 1.31; a claim without any gets one without content."""
    allocation = allocation_of(status) or {}
    if handles := allocation.get("resourceHandles"):
        return [*handles]
    return [{}] if allocation and "devices" not in allocation and status.get("driverName") else []


def preparing_drivers(status: ObjectView) -> list[str]:
    by_driver: dict[str, bool] = {}
    for result in _results(status):
        calls = not _SKIPS & {*(result.get("skipNodeOperations") or ())}
        by_driver[result["driver"]] = by_driver.get(result["driver"], False) or calls
    for handle in _handles(status):
        by_driver[str(handle.get("driverName") or status.get("driverName"))] = True
    return [driver for driver, calls in by_driver.items() if calls]


def devices(status: ObjectView, driver: str) -> list[tuple[str, str, str]]:
    """Each result is request, pool and device; results are sorted."""
    return sorted(
        (_request(result), result["pool"], result["device"])
        for result in _results(status)
        if result["driver"] == driver
    )


def device_names(status: ObjectView, driver: str, request: str) -> list[str] | None:
    """Devices are sorted; an empty request stands for the whole claim.

    None if the allocation has no devices: a classic driver's controller has written it.
    """
    names = [
        each["namedResources"]["name"]
        for handle in _handles(status)
        if handle.get("driverName") == driver
        for each in (handle.get("structuredData") or {}).get("results") or []
        if "namedResources" in each
    ]
    if names:
        return sorted(names)
    if _handles(status):
        return None
    return sorted(name for each, _, name in devices(status, driver) if request in {"", each})


def _request(result: ObjectView) -> str:
    """Containers and drivers name requests without their subrequests."""
    return str(result["request"]).partition("/")[0]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A stage has other devices than the stage before it.

    `driver` prepared wrong devices; if that is empty, the kubelet of `node` gave a container wrong devices.
    `uid` is of the pod, or of the claim.
    """

    uid: str
    time: str
    node: str
    driver: str
    text: str

    @property
    def component(self) -> str:
        """The component at fault, as the log names components."""
        return f"driver/{self.driver}" if self.driver else f"{KUBELET}{self.node}"

    def with_author(self, version: str) -> str:
        """The text has the component at fault and its version in parentheses."""
        did, who = ("prepared", self.driver) if self.driver else ("injected", self.component)
        return f"{self.text} ({did} by {' '.join(filter(None, (who, version)))})"


class _Answer(NamedTuple):
    """A driver's answer to a call for one claim, with its time."""

    time: datetime
    call: DriverCall


class _Answers:
    def __init__(self, drivers: Iterable[str]) -> None:
        self.drivers = {*drivers}
        self._of_claims: defaultdict[tuple[str, str, str], list[_Answer]] = defaultdict(list)

    def take(self, call: DriverCall) -> None:
        self.drivers.add(call.driver)
        if call.unprepares or call.error:
            return
        self._of_claims[call.node, call.driver, call.uid].append(_Answer(parse_timestamp(call.time), call))

    def moments(self, node: str, since: datetime, until: datetime) -> list[datetime]:
        """Times at which drivers of a node answered, and the end of the span."""
        found = {each.time for (at, _, _), own in self._of_claims.items() if at == node for each in own}
        return [*sorted(time for time in found if since <= time < until), until]

    def of_claim(self, node: str, driver: str, uid: str, until: datetime) -> _Answer | None:
        """None if the driver gave no answer until then."""
        found = [each for each in self._of_claims.get((node, driver, uid)) or () if each.time <= until]
        return found[-1] if found else None


class DevicesInside:
    """Follows pods and claims through a log (`see` each write), then `disagreements` judges the records of
    nodes by them."""

    def __init__(self, skew: timedelta = _NOW, lag: timedelta = _NOW) -> None:
        """Clocks of different machines may differ by `skew`; a driver may have read a claim `lag` ago."""
        self._skew, self._lag = skew, lag
        self._pods: defaultdict[str, Past[ObjectView]] = defaultdict(list)  # by UID
        self._statuses: defaultdict[str, Past[ObjectView]] = defaultdict(list)  # of claims, by UID
        self._claims: defaultdict[tuple[str, str], Past[str]] = defaultdict(list)  # UIDs by names
        self._used: defaultdict[str, set[str]] = defaultdict(
            set
        )  # UIDs of claims reserved for a pod, by its UID

    def see(self, write: Write) -> None:
        uid = uid_of(write.value)
        if write.resource == "pods":
            _note(self._pods[uid], write, write.value, named_by_status)
        elif write.resource == CLAIMS:
            _note(self._claims[write.namespace, write.name], write, uid, str)
            for consumer in reserved_for(write.value):
                self._used[str(consumer.get("uid"))].add(uid)
            _note(self._statuses[uid], write, write.value.get("status") or {}, allocation_of)

    def disagreements(self, records: NodeRecords, drivers: Iterable[str] = ()) -> Iterator[Disagreement]:
        """Wrong answers of drivers come first, then wrong contents of containers.

        `drivers` are those of kubeskew that ran; those that were called are known.
        """
        answers = _Answers(drivers)
        for call in records.calls:
            answers.take(call)
            yield from self._of_call(call)
        for event in records.containers:
            if event.what == "started":
                yield from self._of_start(event, answers)

    # -- what drivers answered

    def _of_call(self, call: DriverCall) -> Iterator[Disagreement]:
        """Classic drivers name no devices, so that their answers are not judged."""
        if call.unprepares or call.error or not all(device["device"] for device in call.devices):
            return
        now = parse_timestamp(call.time)
        prepared = sorted(
            (request, device["pool"], device["device"])
            for device in call.devices
            for request in device["requests"]
        )
        allocated = [devices(status, call.driver) for status in self._status(call.uid, now, self._until(now))]
        if allocated and prepared not in allocated:
            has, given = (", ".join(map("/".join, each)) or "nothing" for each in (prepared, allocated[-1]))
            text = (
                f"node {call.node} has {has} prepared for ResourceClaim {call.namespace}/{call.name}, which "
                f"is allocated {given}"
            )
            yield Disagreement(call.uid, call.time, call.node, call.driver, text)

    def _until(self, now: datetime) -> datetime:
        return now + self._skew

    def _status(self, uid: str, since: datetime, until: datetime) -> list[ObjectView]:
        """A driver may have seen any of these states of a claim's status."""
        return _within(self._statuses.get(uid, ()), since - self._lag - self._skew, until)

    # -- what containers had

    def _of_start(self, event: ContainerEvent, answers: _Answers) -> Iterator[Disagreement]:
        """A container is judged by its pod as it was then, and by each order in which the answers may have
        come."""
        now = parse_timestamp(event.time)
        since, until = now - self._skew, self._until(now)
        pods = _within(self._pods.get(event.pod_uid, ()), since, until)
        moments = answers.moments(event.node, since, until) if self._skew else [until]
        found = [[*self._of_container(pod, event, answers, at)] for at in moments for pod in pods]
        if found and all(found):
            yield from found[-1]

    def _of_container(
        self, pod: ObjectView, event: ContainerEvent, answers: _Answers, at: datetime
    ) -> Iterator[Disagreement]:
        """Only answers until `at` count."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        place = f"container {event.container} of Pod {namespace}/{name}"
        uses: list[tuple[str, _Answer]] = []
        texts: list[tuple[str, str]] = []
        for claim, request in container_requests(pod, event.container):
            given = self._answers_for(event, (namespace, claim), answers, at)
            if given is None:
                return
            for driver, answer in given.items():
                if answer is not None:
                    uses.append((request, answer))
                else:
                    texts.append(
                        ("", f"began before {driver} had prepared ResourceClaim {namespace}/{claim}")
                    )
        wanted = {cdi_id for request, answer in uses for cdi_id in _cdi_ids(answer.call, request)}
        had = {each.name for each in event.injected if _driver_of(each.name) in answers.drivers}
        if had != wanted:
            has, wants = (", ".join(sorted(ids)) or "no CDI device" for ids in (had, wanted))
            texts.append(("", f"had {has} inside, and {wants} is prepared for its requests"))
        texts += [*self._contents(event, uses)]
        texts += [("", text) for text in _strange_variables(event, answers.drivers, pod)]
        for driver, text in texts:
            yield Disagreement(event.pod_uid, event.time, event.node, driver, f"{place} {text}")

    def _answers_for(
        self, event: ContainerEvent, claim: tuple[str, str], answers: _Answers, at: datetime
    ) -> dict[str, _Answer | None] | None:
        """Answers by driver; None if the log begins later than they do.

        Of claims that had the name one after the other it is one that was reserved for the pod. The claim may
        have been taken away by the time that another clock shows: a claim that all drivers have answered for
        goes before later ones.
        """
        now = parse_timestamp(event.time)
        until = self._until(now)
        uids = _within(self._claims.get(claim, ()), now - self._lag - self._skew, until)
        uids = [uid for uid in uids if uid in self._used[event.pod_uid]] or uids
        waits: dict[str, _Answer | None] = {}
        for uid in reversed(uids):
            for status in reversed(self._status(uid, now, until)):
                drivers = [each for each in preparing_drivers(status) if each in answers.drivers]
                found = {driver: answers.of_claim(event.node, driver, uid, at) for driver in drivers}
                if found and all(found.values()):
                    return found
                waits = waits or found
        return waits if uids else None

    def _contents(
        self, event: ContainerEvent, uses: Iterable[tuple[str, _Answer]]
    ) -> Iterator[tuple[str, str]]:
        """Each pair has the driver whose CDI devices held other devices for a request than allocated, and a
        text.

        `uses` are the requests, empty for a whole claim, with the answer for the claim. A request that lacks
        one of its CDI devices is left out: the kubelet has not asked for it.
        """
        contents = {injected.name: injected.env for injected in event.injected}
        for request, answer in uses:
            call, ids = answer.call, sorted(_cdi_ids(answer.call, request))
            if not contents.keys() >= {*ids}:
                continue
            statuses = self._status(call.uid, answer.time, self._until(parse_timestamp(event.time)))
            given = [device_names(status, call.driver, request) for status in statuses]
            held = sorted(device for cdi_id in ids for device in _devices_in(contents[cdi_id], call.driver))
            if given and None not in given and held not in given:
                has, wants = (", ".join(each or ()) or "no device" for each in (held, given[-1]))
                through = f" by CDI device {', '.join(ids)}" if ids else ""
                yield (
                    call.driver,
                    (
                        f"had {has} inside{through}, and {wants} is allocated to ResourceClaim "
                        f"{call.namespace}/{call.name}"
                    ),
                )


def _note(past: Past[T], write: Write, value: T, matters: Callable[[T], Any]) -> None:
    """Appends a value only if `matters` of it differs from the last one."""
    if not past or matters(past[-1][1]) != matters(value):
        past.append((parse_timestamp(write.time), value))


def _within(past: Iterable[tuple[datetime, T]], since: datetime, until: datetime) -> list[T]:
    """Values that held at any moment of the span, oldest first."""
    before: list[T] = []
    found: list[T] = []
    for time, value in past:
        if time <= since:
            before = [value]
        elif time <= until:
            found.append(value)
    return [*before, *found]


def _cdi_ids(call: DriverCall, request: str) -> set[str]:
    """An empty request stands for all."""
    return {
        cdi_id
        for device in call.devices
        if not request or not device["requests"] or request in device["requests"]
        for cdi_id in device["cdiIDs"]
    }


def _driver_of(cdi_id: str) -> str:
    """Vendors of kubeskew's CDI devices are the names of drivers."""
    return cdi_id.partition("/")[0]


def _is_devices(name: str, drivers: Collection[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}_") for prefix in map(variable, drivers))


def _devices_in(env: Mapping[str, str], driver: str) -> Iterator[str]:
    for name, value in env.items():
        if _is_devices(name, (driver,)):
            yield from value.split(",")


def _strange_variables(event: ContainerEvent, drivers: Collection[str], pod: ObjectView) -> Iterator[str]:
    """Reports variables that list devices which none of the container's CDI devices sets, and variables that
    are lost."""
    own = own_variables(pod, event.container)
    given: defaultdict[str, set[str]] = defaultdict(set)
    for injected in event.injected:
        for name, value in injected.env.items():
            given[name].add(value)
    for name, value in sorted(event.env.items()):
        if name not in own and _is_devices(name, drivers) and value not in given[name]:
            yield f"had {name}={value} inside, which none of its CDI devices sets"
    for name in sorted(given.keys() - event.env.keys()):
        yield f"had no {name} inside, which a CDI device of it sets"
