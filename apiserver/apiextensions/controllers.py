"""Accepts names of definitions, sets their conditions, and deletes all objects when a definition ends.

Upstream's five controllers of apiextensions run as one here. Establishing waits five seconds there where
several servers run; here each server asks the store at every request, and nothing needs to wait.

Sources: apiextensions-apiserver pkg/controller/finalizer/crd_finalizer.go, 1.36; apiextensions-apiserver
pkg/controller/status/naming_controller.go, 1.36; apiextensions-apiserver
pkg/controller/{status,establish,finalizer,apiapproval}, 1.36.
"""

import asyncio
import copy
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.conditions import find_condition, is_condition_true
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.apiextensions import conditions
from kubeskew.apiserver.apiextensions.table import GROUP, PLURAL, STORED_AS, ComposedTable, Definition
from kubeskew.apiserver.http.request import Handler, Lifetime, Request, parse_info
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.storage.interfaces import StorageError, Store
from kubeskew.apiserver.user import SERVER

logger = logging.getLogger(__name__)

_WAITED_SECONDS = 60.0
_IN_PROGRESS = conditions.condition(
    conditions.TERMINATING, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)
_COMPLETED = conditions.condition(
    conditions.TERMINATING, "False", "InstanceDeletionCompleted", "removed all instances"
)
_NEVER = conditions.condition(
    conditions.TERMINATING, "False", "NeverEstablished", "resource was never established"
)
_NOT_GONE = conditions.condition(
    conditions.TERMINATING,
    "True",
    "InstanceDeletionCheck",
    "could not confirm zero CustomResources remaining: timed out waiting for the condition",
)

WriteStatus = Callable[[Definition, Callable[[Object], None]], Awaitable[None]]
_RETRY_SECONDS = 1.0
_PATH = f"/apis/{GROUP}/v1/{PLURAL}"
_ESTABLISHED = conditions.condition(
    conditions.ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted"
)
_APPROVALS = {
    conditions.INVALID: ("False", "InvalidAnnotation"),
    conditions.MISSING: ("False", "MissingAnnotation"),
    conditions.APPROVED_STATE: ("True", "ApprovedAnnotation"),
    conditions.BYPASSED: ("False", "UnapprovedAnnotation"),
}


class DefinitionServices(Protocol):
    """Controllers of definitions reach the server through this."""

    environment: Environment
    table: ComposedTable
    store: Store
    lifetime: Lifetime

    async def delete_object(self, resource: Resource, namespace: str, name: str) -> None:
        """Deletes an object as the server itself; raises StatusError."""


def is_everyday(error: Exception) -> bool:
    """Somebody else was faster (404, 409): that change wakes the finalizer again."""
    return isinstance(error, StatusError) and error.code in {404, 409}


class Finalizer:
    def __init__(self, services: DefinitionServices, write_status: WriteStatus) -> None:
        self._services = services
        self._write_status = write_status

    async def finish(self, name: str) -> None:
        """Deletes the objects, then the finalizer of a definition; tries again until that is done."""
        clock = self._services.environment.clock
        began, reported, failure = clock.monotonic(), False, ""
        while (definition := self._services.table.stored.get().get(name)) is not None:
            if conditions.FINALIZER not in (definition.obj["metadata"].get("finalizers") or ()):
                return
            try:
                if await self._advance(definition):
                    return
                failure = ""
                if not reported and clock.monotonic() - began > _WAITED_SECONDS:
                    reported = True
                    await self._set_condition(definition, _NOT_GONE)
            except (StatusError, StorageError) as error:
                if not is_everyday(error) and str(error) != failure:
                    failure = str(error)
                    await self._fail(definition, failure)
            except Exception:  # one definition must not keep the others from being finished
                logger.exception("objects of definition %s cannot be deleted", name)
            await clock.sleep(self._services.environment.periods.definition_deletion)

    async def _advance(self, definition: Definition) -> bool:
        """Runs one round; True once the finalizer has been removed."""
        if (find_condition(definition.obj, conditions.TERMINATING) or {}).get("reason") == (
            "InstanceDeletionPending"
        ):
            await self._set_condition(definition, _IN_PROGRESS)
            definition = self._services.table.stored.get()[definition.name]
        if not definition.is_established:
            await self._let_go(definition, _NEVER)
            return True
        await self._delete_objects(definition)
        if self._services.store.list(definition.stored_as).entries:
            return False
        await self._let_go(definition, _COMPLETED)
        return True

    async def _delete_objects(self, definition: Definition) -> None:
        services = self._services
        resource = definition.resource(definition.storage)
        for entry in services.store.list(definition.stored_as).entries:
            try:
                await services.delete_object(resource, entry.key.namespace, entry.key.name)
            except StatusError as error:
                if error.code != 404:
                    raise

    async def _set_condition(self, definition: Definition, condition: Object) -> None:
        now = self._services.environment.clock.now()
        await self._write_status(definition, lambda obj: conditions.put(obj, condition, now))

    async def _fail(self, definition: Definition, why: str) -> None:
        logger.warning("objects of definition %s: %s", definition.name, why)
        condition = conditions.condition(
            conditions.TERMINATING, "True", "InstanceDeletionFailed", f"could not issue all deletes: {why}"
        )
        with suppress(StatusError):
            await self._set_condition(definition, condition)

    async def _let_go(self, definition: Definition, condition: Object) -> None:
        now = self._services.environment.clock.now()

        def change(obj: Object) -> None:
            conditions.put(obj, condition, now)
            obj["metadata"]["finalizers"] = [
                finalizer
                for finalizer in obj["metadata"].get("finalizers") or ()
                if finalizer != conditions.FINALIZER
            ]

        await self._write_status(definition, change)


class Naming(NamedTuple):
    """`names` are the accepted ones; the others are the conditions NamesAccepted and Established."""

    names: Object
    accepted: Object
    established: Object


def is_settled(obj: Object) -> bool:
    return _plain(obj["spec"]["names"]) == _plain((obj.get("status") or {}).get("acceptedNames") or {})


def name(obj: Object, others: Iterable[Object]) -> Naming:
    """Names that other definitions of the group have taken are not accepted; `obj` may keep its own."""
    resources, kinds = _taken(others)
    asked, had = obj["spec"]["names"], (obj.get("status") or {}).get("acceptedNames") or {}
    given = dict(had)
    conflict = None
    for field, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        why = _conflict(field, asked, had, taken)
        if why:
            conflict = conditions.condition(conditions.NAMES_ACCEPTED, "False", reason, why)
        else:
            given[field] = asked.get(field)
    given["categories"] = asked.get("categories")
    accepted = conflict or conditions.condition(
        conditions.NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found"
    )
    return Naming(_ordered(given), accepted, _established(obj, accepted))


def _conflict(field: str, asked: Object, had: Object, taken: set[str]) -> str:
    if field == "shortNames":
        own = had.get(field) or []
        if (asked.get(field) or []) == own:
            return ""
        clashes = dict.fromkeys(name for name in asked.get(field) or () if name not in own and name in taken)
        texts = [f"{json.dumps(clash)} is already in use" for clash in clashes]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    wanted = asked.get(field) or ""
    if wanted == (had.get(field) or "") or wanted not in taken:
        return ""
    return f"{json.dumps(wanted)} is already in use"


def _taken(others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {
            names.get("plural") or "",
            names.get("singular") or "",
            *(names.get("shortNames") or ()),
        }
        kinds |= {names.get("kind") or "", names.get("listKind") or ""}
    return resources, kinds


def _established(obj: Object, accepted: Object) -> Object:
    old = find_condition(obj, conditions.ESTABLISHED)
    found = old or conditions.condition(
        conditions.ESTABLISHED, "False", "NotAccepted", "not all names are accepted"
    )
    if found["status"] != "True" and accepted["status"] == "True":
        return conditions.condition(
            conditions.ESTABLISHED, "False", "Installing", "the initial names have been accepted"
        )
    return found


_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_ALWAYS = {"plural", "kind"}


def _ordered(names: Object) -> Object:
    """The order of fields is Go's; empty ones are left out, except plural and kind."""
    return {field: names.get(field) or "" for field in _ORDER if names.get(field) or field in _ALWAYS}


def _plain(names: Object) -> Object:
    return {field: value for field, value in names.items() if value}


class _RefusedError(Exception):
    """A write was refused and no change will follow, so it has to be tried again."""


class DefinitionControllers:
    """Several servers may run this at once: every write names the revision it knows."""

    def __init__(self, services: DefinitionServices, dispatch: Handler) -> None:
        self._services = services
        self._dispatch = dispatch
        self._finalizing: dict[str, asyncio.Task[None]] = {}
        self._reported: dict[str, str] = {}  # why writes of definitions were refused

    async def run(self) -> None:
        """Runs until the server stops: first for every definition, then for groups in which one changed."""
        try:
            while not self._services.lifetime.stopping.is_set():
                try:
                    await self._follow()
                except StorageError as error:
                    logger.warning("definitions cannot be looked at: %s", error)
                except _RefusedError:
                    logger.debug("definitions are looked at again")
                except Exception:  # of one definition: the others still need their names
                    logger.exception("definitions cannot be looked at")
                await self._services.environment.clock.sleep(_RETRY_SECONDS)
        finally:
            for task in self._finalizing.values():
                task.cancel()

    async def _follow(self) -> None:
        store = self._services.store
        cursor = store.watch(STORED_AS, None, None, store.revision)
        try:
            await self._settle(self._services.table.stored.get())
            async for events in cursor:
                groups = {event.key.name.partition(".")[2] for event in events}
                known = self._services.table.stored.get()
                await self._settle([name for name in known if name.partition(".")[2] in groups])
        finally:
            cursor.close()

    async def _settle(self, names: Iterable[str]) -> None:
        """Groups run at once, so that they share commits; the names of one group depend on each other."""
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(name.partition(".")[2], []).append(name)
        results = await asyncio.gather(*map(self._settle_group, groups.values()), return_exceptions=True)
        for failure in sorted(filter(None, results), key=lambda one: isinstance(one, _RefusedError)):
            raise failure

    async def _settle_group(self, names: Iterable[str]) -> None:
        """Runs every step for each name; raises _RefusedError at the end if a write has to be tried again."""
        refused = False
        for name in names:
            for step in (self._name, self._establish, self._approve, self._finish):
                definition = self._services.table.stored.get().get(name)
                if definition is None:
                    break
                try:
                    await step(definition)
                except StatusError as error:
                    if not is_everyday(error):
                        refused = True
                        self._report(name, error.message)
        if refused:
            raise _RefusedError

    def _report(self, name: str, why: str) -> None:
        """Logs a reason once, although it comes again every second."""
        if self._reported.get(name) != why:
            self._reported[name] = why
            logger.warning("definition %s: %s", name, why)

    async def _name(self, definition: Definition) -> None:
        if is_settled(definition.obj):
            return
        known = self._services.table.stored.get().values()
        found = name(definition.obj, [other.obj for other in known if other.group == definition.group])
        accepted = find_condition(definition.obj, conditions.NAMES_ACCEPTED)
        if found.names == definition.names and conditions.is_equivalent(accepted, found.accepted):
            return

        def change(obj: Object) -> None:
            obj.setdefault("status", {})["acceptedNames"] = found.names
            conditions.put(obj, found.accepted, self._services.environment.clock.now())
            conditions.put(obj, found.established, self._services.environment.clock.now())

        await self.write_status(definition, change)

    async def _establish(self, definition: Definition) -> None:
        if is_condition_true(definition.obj, conditions.NAMES_ACCEPTED) and not definition.is_established:
            await self._put(definition, _ESTABLISHED)

    async def _approve(self, definition: Definition) -> None:
        if not conditions.is_protected(definition.group):
            return
        found = conditions.approval_of(definition.obj)
        condition = conditions.condition(conditions.APPROVED, *_APPROVALS[found.state], found.reason)
        if not conditions.is_equivalent(find_condition(definition.obj, conditions.APPROVED), condition):
            await self._put(definition, condition)

    async def _put(self, definition: Definition, condition: Object) -> None:
        now = self._services.environment.clock.now()
        await self.write_status(definition, lambda obj: conditions.put(obj, condition, now))

    async def _finish(self, definition: Definition) -> None:
        """Deletes the definition's objects in a task of its own, since that may take long."""
        metadata = definition.obj["metadata"]
        if not metadata.get("deletionTimestamp") or definition.uid in self._finalizing:
            return
        task = asyncio.create_task(Finalizer(self._services, self.write_status).finish(definition.name))
        self._finalizing[definition.uid] = task
        task.add_done_callback(lambda _: self._finalizing.pop(definition.uid, None))

    async def write_status(self, definition: Definition, change: Callable[[Object], None]) -> None:
        """Writes the definition as `change` leaves it; raises StatusError (409 if it has changed)."""
        obj = copy.deepcopy(definition.obj)
        change(obj)
        path = f"{_PATH}/{definition.name}/status"
        request = Request.of("PUT", path, {"user-agent": "kube-apiserver"}, dumps(obj))
        request.info = parse_info("PUT", path, {})
        request.user = SERVER
        await self._dispatch(request)
