"""Keeps definitions going: their names and conditions, and at their end the deletion of all their objects.

Upstream's five controllers of apiextensions, as one duty. Establishing waits five seconds there where several
servers run; here each server asks the store at every request, and nothing needs to wait.
Source: apiextensions-apiserver pkg/controller/{status,establish,finalizer,apiapproval}, 1.36.
"""

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable

from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions import approval, conditions, naming
from kubeskew.apiserver.apiextensions.finalizing import Finalizer, is_everyday
from kubeskew.apiserver.apiextensions.resource import GROUP, PLURAL, STORED_AS, Definition
from kubeskew.apiserver.apiextensions.services import DefinitionServices
from kubeskew.apiserver.http.request import Handler, Request
from kubeskew.apiserver.http.request_info import parse
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.storage.failures import StorageError
from kubeskew.apiserver.user import SERVER

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_PATH = f"/apis/{GROUP}/v1/{PLURAL}"
_ESTABLISHED = conditions.condition(
    conditions.ESTABLISHED, "True", "InitialNamesAccepted", "the initial names have been accepted"
)
_APPROVALS = {
    approval.INVALID: ("False", "InvalidAnnotation"),
    approval.MISSING: ("False", "MissingAnnotation"),
    approval.APPROVED: ("True", "ApprovedAnnotation"),
    approval.BYPASSED: ("False", "UnapprovedAnnotation"),
}


class _RefusedError(Exception):
    """Tells that a write was refused for which no change will follow: it has to be tried again."""


class DefinitionControllers:
    """The duty of one server. Several servers may do it at once: every write names the revision it knows."""

    def __init__(self, services: DefinitionServices, dispatch: Handler) -> None:
        self._services = services
        self._dispatch = dispatch
        self._finalizing: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}  # why writes of definitions were refused

    async def run(self) -> None:
        """Look at every definition, then at those of a group in which one has changed."""
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
        """Groups at once, so that they share commits; the names of one group depend on each other."""
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(name.partition(".")[2], []).append(name)
        results = await asyncio.gather(*map(self._settle_group, groups.values()), return_exceptions=True)
        for failure in sorted(filter(None, results), key=lambda one: isinstance(one, _RefusedError)):
            raise failure

    async def _settle_group(self, names: Iterable[str]) -> None:
        """Do all that can be done; raises _RefusedError if a write was refused that has to come again."""
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
                        self._tell(name, error.message)
        if refused:
            raise _RefusedError

    def _tell(self, name: str, why: str) -> None:
        """Log a reason once: it is met again every second."""
        if self._told.get(name) != why:
            self._told[name] = why
            logger.warning("definition %s: %s", name, why)

    async def _name(self, definition: Definition) -> None:
        if naming.is_settled(definition.obj):
            return
        known = self._services.table.stored.get().values()
        found = naming.name(definition.obj, [other.obj for other in known if other.group == definition.group])
        accepted = find_condition(definition.obj, conditions.NAMES_ACCEPTED)
        if found.names == definition.names and conditions.is_equivalent(accepted, found.accepted):
            return

        def change(obj: Object) -> None:
            obj.setdefault("status", {})["acceptedNames"] = found.names
            conditions.put(obj, found.accepted, self._services.environment.clock.now())
            conditions.put(obj, found.established, self._services.environment.clock.now())

        await self.write_status(definition, change)

    async def _establish(self, definition: Definition) -> None:
        if conditions.is_true(definition.obj, conditions.NAMES_ACCEPTED) and not definition.is_established:
            await self._put(definition, _ESTABLISHED)

    async def _approve(self, definition: Definition) -> None:
        """Tell of definitions in the groups of Kubernetes whether they are approved."""
        if not approval.is_protected(definition.group):
            return
        found = approval.approval_of(definition.obj)
        condition = conditions.condition(conditions.APPROVED, *_APPROVALS[found.state], found.reason)
        if not conditions.is_equivalent(find_condition(definition.obj, conditions.APPROVED), condition):
            await self._put(definition, condition)

    async def _put(self, definition: Definition, condition: Object) -> None:
        now = self._services.environment.clock.now()
        await self.write_status(definition, lambda obj: conditions.put(obj, condition, now))

    async def _finish(self, definition: Definition) -> None:
        """Have the objects of a definition deleted, beside everything else: that may take long."""
        metadata = definition.obj["metadata"]
        if not metadata.get("deletionTimestamp") or definition.uid in self._finalizing:
            return
        task = asyncio.create_task(Finalizer(self._services, self.write_status).finish(definition.name))
        self._finalizing[definition.uid] = task
        task.add_done_callback(lambda _: self._finalizing.pop(definition.uid, None))

    async def write_status(self, definition: Definition, change: Callable[[Object], None]) -> None:
        """Write the definition as `change` makes it; raises StatusError (409 if it has changed)."""
        obj = copy.deepcopy(definition.obj)
        change(obj)
        path = f"{_PATH}/{definition.name}/status"
        request = Request.of("PUT", path, {"user-agent": "kube-apiserver"}, dumps(obj))
        request.info = parse("PUT", path, {})
        request.user = SERVER
        await self._dispatch(request)
