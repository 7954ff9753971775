"""The storage version migrator: has every object of a resource written once more, unchanged. In 1.36 and
later one migration of a resource runs at a time, as its condition shows.

The definition of a custom resource gets a condition that it is migrated, and afterwards its status lists no
other stored versions.

A migration has two steps, three since 1.36: one records the resource version from which on everything is
written in the new version, one patches the objects that the garbage collector knows, and the migration runner
chooses the migration that runs for each resource. A patch that changes nothing is written if the server
stores other bytes than the present ones.

Sources: pkg/controller/storageversionmigrator/util.go, 1.30 to 1.37;
pkg/controller/storageversionmigrator/migrationrunner.go, 1.36 and 1.37;
pkg/controller/storageversionmigrator, 1.30 to 1.36. The patch and the validation of resources in 1.37 follow
its pull requests (138874); the counts in its messages (138875) are left out.
"""

import logging
from datetime import datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, Ref
from kubeskew.apimachinery.client.rest import APPLY_PATCH, CONNECTION_ERRORS, MERGE_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition, is_condition_true, new_condition, with_condition
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, SyncError
from kubeskew.controllers.framework.discovery import ServedResource, served_resources
from kubeskew.controllers.storageversionmigration.features import MigrationFeatures

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
IN_PROGRESS_REASON = "StorageVersionMigrationInProgress"
SUCCEEDED_REASON = "StorageVersionMigrationSucceeded"
FAILED_REASON = "StorageVersionMigrationFailed"
MANAGER = "migration-runner-controller"
MIGRATING = "StorageMigrating"  # of a definition
_TRIES = 5  # client-go, retry.DefaultRetry
log = logging.getLogger(__name__)

_NOWHERE = "@fake:svm_ns!"  # a namespace that cannot be
_NEEDED = ("update", "patch", "list")
_GRACE_SECONDS = 60.0  # the garbage collector may not know a new resource yet
_PASSING = frozenset({"InternalError", "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests"})


def is_over(migration: Object) -> bool:
    """Migrations that have succeeded or failed are not processed again."""
    return is_condition_true(migration, SUCCEEDED) or is_condition_true(migration, FAILED)


def with_true(
    migration: Object, kind: str, reason: str, message: str, now: datetime, features: MigrationFeatures
) -> Object:
    """The migration stays as it is if the condition is true already, and since 1.36 if it exists.

    Before the migration runner of 1.36, the condition that ends a migration also makes Running false.
    """
    present = find_condition(migration, kind)
    if present is not None and (features.one_at_a_time or present["status"] == "True"):
        return migration
    conditions = [dict(condition) for condition in (migration.get("status") or {}).get("conditions") or ()]
    if kind in (SUCCEEDED, FAILED) and not features.one_at_a_time:
        for condition in conditions:
            if condition["type"] == RUNNING:
                condition["status"] = "False"
    conditions.append(_condition(kind, reason, message, now, features))
    return with_status(migration, conditions=conditions)


def with_status(migration: Object, **changed: object) -> Object:
    return {**migration, "status": {**(migration.get("status") or {}), **changed}}


def _condition(kind: str, reason: str, message: str, now: datetime, features: MigrationFeatures) -> Object:
    made = {"type": kind, "status": "True", "reason": reason}
    if not features.names_versions:
        return {**made, "lastTransitionTime": timestamp(now), "message": message}
    details = {"message": message} if message and features.gives_messages else {}
    return {**made, "lastUpdateTime": timestamp(now), **details}


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
        """Ends migrations that are over, and starts the next one of `resource` (RESOURCE.GROUP)
        if none runs.
        """
        running, waiting = False, []
        for migration in self._migrations.list():
            wanted = migration["spec"]["resource"]
            if f"{wanted['resource']}.{wanted.get('group') or ''}" != resource:
                continue
            if is_condition_true(migration, RUNNING) and is_over(migration):
                await self._end(migration, resource)
            elif is_condition_true(migration, RUNNING):
                running = True
            elif not is_over(migration):
                waiting.append(migration)
        if waiting and not running:
            await self._begin(min(waiting, key=_age), resource)

    async def _begin(self, migration: Object, resource: str) -> None:
        name = migration["metadata"]["name"]
        await self._set_condition(resource, "True", "MigrationRunning", f"Migration {name} is running")
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
        if is_condition_true(migration, SUCCEEDED):
            await self._set_condition(resource, "False", "MigrationSucceeded", "The migration has succeeded")
        else:
            await self._set_condition(resource, "False", "MigrationFailed", "The migration has failed")
        ended = new_condition(
            RUNNING, "False", "MigrationCompleted", "Migration completed", self._clock.now()
        )
        ended["observedGeneration"] = migration["metadata"].get("generation") or 0
        conditions = with_condition(migration["status"]["conditions"], ended)
        await self._client.update(self._features.ref, with_status(migration, conditions=conditions), "status")

    async def _set_condition(self, resource: str, status: str, reason: str, message: str) -> None:
        """Built-in resources have no definition and thus no condition."""
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
        condition = new_condition(MIGRATING, status, reason, message, self._clock.now())
        condition["observedGeneration"] = generation
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
    return [each["name"] for each in definition["spec"]["versions"] if each.get("storage")]


class Work(NamedTuple):
    """`revise` records the resource version, `migrate` patches, `run` chooses."""

    action: str
    name: str  # of a migration; of `run`, of the resource: RESOURCE.GROUP


class StorageVersionMigrationController(Controller):
    name = "storage-version-migrator-controller"
    component = "storage-version-migrator-controller"
    queue_name = "storage-version-migrator-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = MigrationFeatures.of(context.environment.gates)
        self._ref = self._features.ref
        self._monitors = context.monitors
        self._migrations = context.informer(self._ref)
        self._runner = MigrationRunner(self.client, self._migrations, self.clock, self._features)
        self._migrations.add_handler(self._changed, lambda _, new: self._changed(new), self._deleted)

    def _changed(self, migration: Object) -> None:
        name = migration["metadata"]["name"]
        self.queue.add(Work("revise", name))
        self.queue.add(Work("migrate", name))
        self._deleted(migration)

    def _deleted(self, migration: Object) -> None:
        if self._features.one_at_a_time:
            self.queue.add(Work("run", resource_of(migration)))

    async def sync(self, key: Work) -> None:
        if key.action == "run":
            await self._runner.choose(key.name)
            return
        migration = self._migrations.get("", key.name)
        if migration is None or is_over(migration):
            return
        revision = (migration.get("status") or {}).get("resourceVersion") or ""
        if key.action == "revise" and not revision:
            await self._revise(migration)
        elif key.action == "migrate" and revision:
            await self._migrate(migration, int(revision))

    # -- the resource version

    async def _revise(self, migration: Object) -> None:
        served = await self._served(migration)
        if served is None:
            await self._fail(migration, "resource does not exist in discovery")
            return
        ref = served.ref
        if not self._features.names_versions and not served.verbs.issuperset(_NEEDED):
            needed = " ".join(_NEEDED)
            why = f'resource "{_gvr(ref)}" does not support discovery operations: [{needed}]'
            await self._fail(migration, why)
            return
        namespace = _NOWHERE if ref.namespaced else ""
        listed = await self.client.list(ref, namespace, limit=1, metadata_only=True)
        await self._update(with_status(migration, resourceVersion=listed["metadata"]["resourceVersion"]))

    async def _served(self, migration: Object) -> ServedResource | None:
        """Since the beta, migrations name no version and have the first of the group."""
        wanted = migration["spec"]["resource"]
        place = (wanted.get("group") or "", wanted["resource"])
        for served in await served_resources(self.client):
            named = served.ref.version == wanted.get("version") if self._features.names_versions else True
            if (served.ref.group, served.ref.plural) == place and named:
                return served
        return None

    # -- the migration

    async def _migrate(self, migration: Object, revision: int) -> None:
        monitor = await self._monitor(migration)
        if monitor is None:
            return
        known = int(monitor.resource_version or "0")
        if known < revision:
            raise SyncError(
                "GC cache is not up to date, requeuing to attempt again. "
                f"gcListResourceVersion: {known}, listResourceVersion: {revision}"
            )
        if not self._features.one_at_a_time:
            migration = await self._set(migration, RUNNING, IN_PROGRESS_REASON)
        failure = await self._patch_all(monitor, revision)
        if failure:
            await self._fail(migration, failure)
            return
        await self._set(migration, SUCCEEDED, SUCCEEDED_REASON)

    async def _monitor(self, migration: Object) -> Informer | None:
        """Fails the migration if the garbage collector does not watch the resource; then None."""
        wanted = migration["spec"]["resource"]
        found = next((ref for ref in self._monitors if _is_wanted(ref, wanted)), None)
        monitor = self._monitors.get(found) if found else None
        if monitor is None:
            created = parse_timestamp(migration["metadata"]["creationTimestamp"])
            age = (self.clock.now() - created).total_seconds()
            if age < _GRACE_SECONDS or self._features.makes_deleted:
                raise SyncError("resource does not exist in GC, requeuing to attempt again")
            named = self._features.names_versions
            await self._fail(migration, "resource not found" if named else "resource does not exist in GC")
            return None
        if not monitor.has_synced:
            raise SyncError("dependency graph is not synced, requeuing to attempt again")
        return monitor

    async def _patch_all(self, monitor: Informer, revision: int) -> str:
        """Patches each object without changes; the reason of a failure is returned, empty if there is
        none.
        """
        features = self._features
        for obj in monitor.list():
            metadata = obj["metadata"]
            if features.leaves_newer and int(metadata["resourceVersion"]) > revision:
                continue
            try:
                await self._patch(monitor.ref, metadata)
            except StatusError as error:
                if error.code == 409 or (features.merges and error.code == 404):
                    continue  # somebody else has written it, or it is gone
                if features.tries_again and error.reason in _PASSING:
                    raise
                log.info("Failed to migrate the resource: %s %s: %s", monitor.ref, metadata["name"], error)
                return _failure(error, features)
            except CONNECTION_ERRORS as error:
                if features.tries_again:
                    raise
                return _failure(error, features)
        return ""

    async def _patch(self, ref: Ref, metadata: Object) -> None:
        body: Any = {"apiVersion": ref.api_version, "kind": ref.kind}
        version = {"resourceVersion": metadata["resourceVersion"]}
        if self._features.merges:
            body = {"metadata": version}
        elif not self._features.makes_deleted:
            body["metadata"] = {"uid": metadata["uid"], **version}
        await self.client.patch(
            ref,
            metadata["name"],
            metadata.get("namespace") or "",
            body,
            MERGE_PATCH if self._features.merges else APPLY_PATCH,
            field_manager=self.name,
        )

    # -- the status

    async def _fail(self, migration: Object, why: str) -> None:
        await self._set(migration, FAILED, FAILED_REASON, why)

    async def _set(self, migration: Object, kind: str, reason: str, message: str = "") -> Object:
        changed = with_true(migration, kind, reason, message, self.clock.now(), self._features)
        return await self._update(changed)

    async def _update(self, migration: Object) -> Object:
        try:
            return await self.client.update(self._ref, migration, "status")
        except StatusError as error:
            if is_reason(error, "Conflict"):
                raise SyncError(f"error updating status: {error}") from error
            raise


def resource_of(migration: Object) -> str:
    """Definitions have this name: RESOURCE.GROUP."""
    wanted = migration["spec"]["resource"]
    return f"{wanted['resource']}.{wanted.get('group') or ''}"


def _is_wanted(ref: Ref, wanted: Object) -> bool:
    version = wanted.get("version") or ref.version
    return (ref.group, ref.version, ref.plural) == (wanted.get("group") or "", version, wanted["resource"])


def _failure(error: Exception, features: MigrationFeatures) -> str:
    cause = f": {error}" if features.tries_again else ""
    return f"migration encountered unhandled error{cause}"


def _gvr(ref: Ref) -> str:
    return f"{ref.group}/{ref.version}, Resource={ref.plural}"
