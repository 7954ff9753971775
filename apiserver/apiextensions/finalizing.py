"""Ends a definition: deletes all its objects first, then lets go of it.

Source: apiextensions-apiserver pkg/controller/finalizer/crd_finalizer.go, 1.36.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions import conditions
from kubeskew.apiserver.apiextensions.resource import Definition
from kubeskew.apiserver.apiextensions.services import DefinitionServices
from kubeskew.apiserver.storage.failures import StorageError

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.25  # upstream polls every five
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


def is_everyday(error: Exception) -> bool:
    """Decides whether somebody else was faster: that change wakes the finalizer again."""
    return isinstance(error, StatusError) and error.code in {404, 409}


class Finalizer:
    """Finishes definitions that are being deleted."""

    def __init__(self, services: DefinitionServices, write_status: WriteStatus) -> None:
        self._services = services
        self._write_status = write_status

    async def finish(self, name: str) -> None:
        """Delete the objects of a definition and let go of it, again and again until that is done."""
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
                    await self._tell(definition, _NOT_GONE)
            except (StatusError, StorageError) as error:
                if not is_everyday(error) and str(error) != failure:
                    failure = str(error)
                    await self._fail(definition, failure)
            except Exception:  # one definition must not keep the others from being finished
                logger.exception("objects of definition %s cannot be deleted", name)
            await clock.sleep(_AGAIN_SECONDS)

    async def _advance(self, definition: Definition) -> bool:
        """Runs one round; returns True once the definition has been let go of."""
        if (find_condition(definition.obj, conditions.TERMINATING) or {}).get("reason") == (
            "InstanceDeletionPending"
        ):
            await self._tell(definition, _IN_PROGRESS)
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

    async def _tell(self, definition: Definition, condition: Object) -> None:
        now = self._services.environment.clock.now()
        await self._write_status(definition, lambda obj: conditions.put(obj, condition, now))

    async def _fail(self, definition: Definition, why: str) -> None:
        """Say in the definition why its objects are still there."""
        logger.warning("objects of definition %s: %s", definition.name, why)
        condition = conditions.condition(
            conditions.TERMINATING, "True", "InstanceDeletionFailed", f"could not issue all deletes: {why}"
        )
        with suppress(StatusError):
            await self._tell(definition, condition)

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
