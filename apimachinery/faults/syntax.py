"""Reads faults as scenarios and the command line write them.

    component: scheduler             apiserver, controller-manager, scheduler, kubelet/NODE, driver/NAME;
                                     driver-plugin/NAME or driver-controller/NAME for one of its processes
    id: lost-binding                 by which it is cleared and awaited; made of the rest if it is not given

Which calls, with upstream's names:

    verb: update                     or a list, or *: get, list, watch, create, update, patch, delete, …; of a
                                     kubelet's calls of drivers NodePrepareResources, NodeUnprepareResources,
                                     of those of its container runtime RunPodSandbox, CreateContainer, …
    resource: resourceclaims         or resourceclaims.resource.k8s.io; without, all but leases and events;
                                     of a kubelet `runtime`: all calls of its container runtime
    subresource: status              * is any; without, the object itself
    namespace, name                  of the object
    user: kubernetes-admin           of a request to the API server; of the controller manager, a controller's
    event: MODIFIED                  an event of a watch (ADDED, MODIFIED, DELETED, BOOKMARK, *)

At which of them:

    nth: 3                           the third alone; with `times` or `for`, those after it too
    every: 2, probability: 0.1       of these each second, or some, chosen by `seed`
    times: 2, for: 5s                at most so often; for so long after the first
    optional: true                   it may end without having fired

What goes wrong (one of these):

    answer: 409                      also 401, 403, 404, 410, 429, 500, 503, 504; `message`, `retryAfter` (s)
    drop: request | answer           the request does not arrive; or it is done and the answer is lost
    drop: connection                 a watch breaks off at an event
    delay: 200ms                     or {min: 10ms, max: 2s}: before the request; of events, how much later
    stale: true | 5s                 events of a watch are held back
    crash: before | after            at its n-th write or event, SIGKILL; of an API server before or after the
                                     commit
    outage: true | 5s | hang         of an API server; of another component, only it does not reach the server
    lostLease: true                  every renewal is refused, until the lease is lost
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kubeskew.apimachinery.faults.fault import (
    ANY,
    COMMITS,
    LOCAL_CALLS,
    PLUGINS,
    RUNTIME,
    VERBS,
    WRITES,
    Effect,
    Fault,
    Kind,
    Selector,
    Timing,
    missing_resource,
)
from kubeskew.apimachinery.faults.keys import (
    EFFECTS,
    FaultError,
    duration,
    flag,
    is_duration,
    number,
    read_effect,
    text,
)
from kubeskew.apimachinery.known_names import CONTROLLER, DRIVER, METRICS_SERVER, PLUGIN, did_you_mean

SELECTORS = ("verb", "resource", "subresource", "namespace", "name", "user", "event")
TIMINGS = ("nth", "every", "probability", "times", "for", "seed")
KEYS = ("component", "id", *SELECTORS, *TIMINGS, *EFFECTS, "message", "retryAfter", "optional")
_NAMED_KINDS = ("kubelet", DRIVER, PLUGIN, CONTROLLER)
KINDS_OF_COMPONENTS = ("apiserver", "controller-manager", "scheduler", METRICS_SERVER, *_NAMED_KINDS)
EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", ANY)
ALL = "all"  # stands for every fault where one is named
_KNOWN_VERBS = f"; known are {', '.join(VERBS)}"
_METHODS = {"put": "update", "post": "create", "write": ", ".join(WRITES), "read": "get, list, watch"}
_RENEWING = ("get", "create", "update", "patch")


def read(body: Mapping[str, Any], taken: Iterable[str] = ()) -> Fault:
    """Reads a mapping; the fault's id is none of those `taken`. Raises FaultError."""
    check_keys(body)
    effect = read_effect(body)
    where = _selector(body, effect)
    at_once = effect.kind is Kind.OUTAGE and not any(key in body for key in (*SELECTORS, "nth"))
    component = check_component(body.get("component"))
    _check_sides(component, where, effect)
    _check_local_calls(body, where, effect)
    when = _timing(body, effect)
    fault = Fault("", component, effect, where, when, at_once, flag(body, "optional"))
    wanted = text(body, "id") or _id(fault)
    names = {*taken, ALL}
    if wanted in names and "id" in body:
        raise FaultError(f"id: there is a fault {wanted} already; clear it first, or name this one otherwise")
    return replace(fault, id=next(name for name in _numbered(wanted) if name not in names))


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in itertools.count(2))


def check_keys(body: Mapping[str, Any]) -> None:
    """Raises FaultError unless every key is known and exactly one of them names an effect."""
    for key in body:
        if key not in KEYS:
            hint = did_you_mean(str(key), KEYS) or f"; known are {', '.join(KEYS)}"
            raise FaultError(f"unknown key {key}{hint}")
    effects = [key for key in EFFECTS if key in body]
    if len(effects) != 1:
        found = " and ".join(effects) or "none"
        raise FaultError(f"expected one of {', '.join(EFFECTS)}, found {found}")


def check_component(value: Any) -> str:
    """Raises FaultError if no component can have that name."""
    if not isinstance(value, str) or not value:
        raise FaultError("component: expected a component, such as scheduler or kubelet/node-1")
    kind, slash, name = value.partition("/")
    needs_name = kind in _NAMED_KINDS
    base = kind.rpartition("-")[0] if kind.startswith("apiserver-") and kind[10:].isdigit() else kind
    if base not in KINDS_OF_COMPONENTS:
        raise FaultError(f"component: there is no component {value}{did_you_mean(kind, KINDS_OF_COMPONENTS)}")
    if needs_name != bool(slash and name):
        raise FaultError(f"component: expected {f'{kind}/NAME' if needs_name else base}, found {value}")
    return value


# -- which calls


def _selector(body: Mapping[str, Any], effect: Effect) -> Selector:
    if "lostLease" in body:
        if extra := [key for key in SELECTORS if key in body]:
            raise FaultError(f"{extra[0]}: a lost lease is about all calls for leases; leave it out")
        return Selector(_RENEWING, "leases", "coordination.k8s.io")
    event = _event(body, effect)
    resource, group, subresource = _resource(body)
    commits = effect.kind is Kind.CRASH and str(body.get("component")).startswith("apiserver")
    return Selector(
        _verbs(body, event, effect, commits=commits),
        *(resource, group, subresource or text(body, "subresource")),
        *(text(body, "namespace"), text(body, "name"), text(body, "user"), event),
        commit=commits,
    )


def _verbs(body: Mapping[str, Any], event: str, effect: Effect, *, commits: bool) -> tuple[str, ...]:
    given = body.get("verb")
    verbs = tuple(given if isinstance(given, list) else [] if given is None else [given])
    for verb in verbs:
        if verb not in (*VERBS, *LOCAL_CALLS, ANY):
            meant = _METHODS.get(str(verb).lower())
            hint = f"; did you mean {meant}?" if meant else did_you_mean(str(verb), (*VERBS, *LOCAL_CALLS))
            raise FaultError(f"verb: there is no verb {verb}{hint or _KNOWN_VERBS}")
    if event:
        if verbs not in ((), ("watch",)):
            raise FaultError("verb: only a watch has events; leave verb or event out")
        return ("watch",)
    if effect.kind is Kind.CRASH:
        writes = COMMITS if commits else WRITES
        if wrong := [verb for verb in verbs if verb not in (*writes, *_local_calls(body), ANY)]:
            dies = "a component crashes at a write or an event"
            why = "the log knows create, update and delete" if commits else dies
            raise FaultError(f"verb: {why}, and {wrong[0]} is none of these")
        every = ANY in verbs or not verbs
        return (() if _is_runtime(body) else writes) if every else verbs
    return () if ANY in verbs else verbs


def _local_calls(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Only kubelets call drivers and a container runtime."""
    return (*LOCAL_CALLS,) if _is_kubelet(body) else ()


def _is_kubelet(body: Mapping[str, Any]) -> bool:
    return str(body.get("component")).startswith("kubelet/")


def _is_runtime(body: Mapping[str, Any]) -> bool:
    return _is_kubelet(body) and body.get("resource") == RUNTIME


def _resource(body: Mapping[str, Any]) -> tuple[str, str | None, str]:
    resource, _, subresource = text(body, "resource").partition("/")
    if subresource and "subresource" in body:
        raise FaultError(f"resource: say {subresource} once, here or in subresource")
    plural, dot, group = resource.partition(".")
    if plural in ("", ANY) or _is_runtime(body):
        return plural, group if dot else None, subresource
    if not dot and (wrong := missing_resource(plural)):
        raise FaultError(f"resource: {wrong}")
    return plural, group if dot else None, subresource


def _event(body: Mapping[str, Any], effect: Effect) -> str:
    event = text(body, "event")
    if not event and (effect.kind is Kind.STALE or effect.place == "connection"):
        return ANY
    if not event and effect.kind is Kind.DELAY and body.get("verb") == "watch":
        return ANY
    if event and event not in EVENTS:
        raise FaultError(f"event: there is no event {event}{did_you_mean(event.upper(), EVENTS)}")
    if event and (effect.kind is Kind.OUTAGE or effect.place in ("request", "answer")):
        raise FaultError(f"event: an event of a watch cannot be met by {effect}")
    return event


def _check_sides(component: str, where: Selector, effect: Effect) -> None:
    """Raises FaultError for keys whose value is not known on the component's side of a call."""
    if not component.startswith("apiserver"):
        if where.user and component != "controller-manager":
            raise FaultError(f"user: {component} is one user; leave it out")
        return
    if effect.kind is Kind.CRASH:
        if where.event:
            raise FaultError("event: an API server has no watch; it crashes at a commit")
        if where.subresource not in ("", ANY):
            raise FaultError("subresource: a commit does not have it; leave it out")
    elif where.name and where.verbs == ("create",):
        raise FaultError("name: an API server learns it after the request has come in; leave it out")


def _check_local_calls(body: Mapping[str, Any], where: Selector, effect: Effect) -> None:
    """Raises FaultError for effects and selectors that a kubelet's call on its node cannot have."""
    called = [verb for verb in where.verbs if verb in LOCAL_CALLS]
    if where.resource == RUNTIME and _is_kubelet(body):
        wrong = [verb for verb in where.verbs if LOCAL_CALLS.get(verb) != RUNTIME]
        if wrong:
            raise FaultError(f"verb: {wrong[0]} is no call of a container runtime")
    elif not called:
        return
    what = called[0] if called else "a call of a container runtime"
    if called and not _is_kubelet(body):
        raise FaultError(f"verb: only kubelets call {what}")
    if called and LOCAL_CALLS[called[0]] == PLUGINS:
        if where.resource or where.namespace or where.subresource:
            raise FaultError(f"resource: {what} is a call of a driver, whose name is `name`; leave it out")
        if effect.kind not in (Kind.CRASH, Kind.DROP, Kind.DELAY):
            raise FaultError(f"verb: {what} can be lost or delayed, or the kubelet crashes at it")
        return
    if where.resource not in ("", RUNTIME) or where.subresource:
        raise FaultError(f"resource: {what} is about a pod, by `namespace` and `name`, or about an image")
    if effect.kind not in (Kind.ANSWER, Kind.CRASH, Kind.DROP, Kind.DELAY) or effect.place == "connection":
        raise FaultError(f"verb: {what} can be refused, lost or delayed, or the kubelet crashes at it")


# -- at which of them


def _timing(body: Mapping[str, Any], effect: Effect) -> Timing:
    seconds = duration(body["for"], "for") if "for" in body else None
    value = body.get(effect.kind.value)
    if effect.kind in (Kind.STALE, Kind.OUTAGE) and is_duration(value):
        if seconds is not None:
            raise FaultError(f"for: {effect.kind} says {value} already")
        seconds = duration(value, effect.kind)
    probability = body.get("probability", 1.0)
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 < probability <= 1:
        raise FaultError(f"probability: expected a number above 0 and up to 1, found {probability!r}")
    times = number(body, "times", None)
    once = effect.kind in (Kind.CRASH, Kind.OUTAGE) or ("nth" in body and "every" not in body)
    if times is None and once and (seconds is None or effect.kind in (Kind.CRASH, Kind.OUTAGE)):
        times = 1
    seed = body.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise FaultError(f"seed: expected a whole number, found {seed!r}")
    nth, every = number(body, "nth", 1) or 1, number(body, "every", 1) or 1
    if "every" in body and "nth" not in body:
        nth = every
    return Timing(nth, every, float(probability), times, seconds, seed)


def _id(fault: Fault) -> str:
    where, effect = fault.where, fault.effect
    verb = where.verbs[0] if len(where.verbs) == 1 and not where.event else ""
    what = str(effect.code) if effect.kind is Kind.ANSWER else effect.kind.value
    parts = (fault.component.replace("/", "-"), verb, where.resource, where.subresource, what)
    return "-".join(part for part in parts if part not in ("", ANY))
