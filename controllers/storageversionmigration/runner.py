"""The migration runner of 1.36 and later: one migration of a resource runs at a time, as its condition says.

It tells the definition of a custom resource that it is migrated, and afterwards that nothing is stored in
other versions any more.

Source: pkg/controller/storageversionmigrator/migrationrunner.go, 1.36 and 1.37.
"""

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS
from kubeskew.apimachinery.client.rest import MERGE_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.conditions import find_condition, with_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.storageversionmigration.conditions import (
    RUNNING,
    SUCCEEDED,
    is_over,
    is_true,
    with_status,
    with_true,
)
from kubeskew.controllers.storageversionmigration.features import MigrationFeatures

MANAGER = "migration-runner-controller"
MIGRATING = "StorageMigrating"  # of a definition
_TRIES = 5  # client-go, retry.DefaultRetry


class MigrationRunner:
    """Chooses among the migrations of a resource, the oldest first."""

    def __init__(
        self, client: APIClient, migrations: Informer, clock: Clock, features: MigrationFeatures
    ) -> None:
        self._client = client
        self._migrations = migrations
        self._clock = clock
        self._features = features

    async def choose(self, resource: str) -> None:
        """Ends what is over, and lets the next migration of RESOURCE.GROUP run if none does."""
        running, waiting = False, []
        for migration in self._migrations.list():
            wanted = migration["spec"]["resource"]
            if f"{wanted['resource']}.{wanted.get('group') or ''}" != resource:
                continue
            if is_true(migration, RUNNING) and is_over(migration):
                await self._end(migration, resource)
            elif is_true(migration, RUNNING):
                running = True
            elif not is_over(migration):
                waiting.append(migration)
        if waiting and not running:
            await self._begin(min(waiting, key=_age), resource)

    async def _begin(self, migration: Object, resource: str) -> None:
        name = migration["metadata"]["name"]
        await self._tell(resource, "True", "MigrationRunning", f"Migration {name} is running")
        begun = with_true(
            migration,
            RUNNING,
            "MigrationRunning",
            "The migration is running",
            self._clock.now(),
            self._features,
        )
        await self._client.update(self._features.ref, begun, "status")

    async def _end(self, migration: Object, resource: str) -> None:
        if is_true(migration, SUCCEEDED):
            await self._tell(resource, "False", "MigrationSucceeded", "The migration has succeeded")
        else:
            await self._tell(resource, "False", "MigrationFailed", "The migration has failed")
        ended = {
            "type": RUNNING,
            "status": "False",
            "lastTransitionTime": timestamp(self._clock.now()),
            "reason": "MigrationCompleted",
            "message": "Migration completed",
            "observedGeneration": migration["metadata"].get("generation") or 0,
        }
        conditions = with_condition(migration["status"]["conditions"], ended)
        await self._client.update(self._features.ref, with_status(migration, conditions=conditions), "status")

    async def _tell(self, resource: str, status: str, reason: str, message: str) -> None:
        """Sets the condition of the resource's definition; nothing to do for built-in resources."""
        for tried in range(_TRIES):
            try:
                definition = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, resource)
            except StatusError as error:
                if error.code == 404:
                    return
                raise
            try:
                await self._patch(definition, status, reason, message)
            except StatusError as error:
                if error.code != 409 or tried + 1 == _TRIES:
                    raise
            else:
                return

    async def _patch(self, definition: Object, status: str, reason: str, message: str) -> None:
        generation = definition["metadata"]["generation"]
        condition = {
            "type": MIGRATING,
            "status": status,
            "lastTransitionTime": timestamp(self._clock.now()),
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
        }
        changed: Object = {}
        if status == "False":
            seen = find_condition(definition, MIGRATING) or {}
            unchanged = seen.get("observedGeneration") == generation
            if reason == "MigrationSucceeded":
                condition["message"] = message + (
                    " and the stored versions have been updated"
                    if unchanged
                    else " but the stored versions have not been updated due to a generation mismatch"
                )
            if unchanged:
                changed["storedVersions"] = _stored(definition)
        await self._send(definition, condition, changed)

    async def _send(self, definition: Object, condition: Object, changed: Object) -> None:
        metadata = {
            "name": definition["metadata"]["name"],
            "resourceVersion": definition["metadata"]["resourceVersion"],
        }
        if not self._features.merges:
            body = {"metadata": metadata, "status": {"conditions": [condition], **changed}}
            await self._client.apply(
                CUSTOM_RESOURCE_DEFINITIONS, body, field_manager=MANAGER, force=True, subresource="status"
            )
            return
        conditions = with_condition((definition.get("status") or {}).get("conditions") or (), condition)
        await self._client.patch(
            CUSTOM_RESOURCE_DEFINITIONS,
            metadata["name"],
            "",
            {"metadata": metadata, "status": {"conditions": conditions, **changed}},
            MERGE_PATCH,
            subresource="status",
            field_manager=MANAGER,
        )


def _age(migration: Object) -> tuple[str, str]:
    return migration["metadata"]["creationTimestamp"], migration["metadata"]["name"]


def _stored(definition: Object) -> list[str]:
    """Returns the version in which new objects are stored, as a list."""
    return [each["name"] for each in definition["spec"]["versions"] if each.get("storage")]
