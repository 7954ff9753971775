"""The generic registry calls these hooks for a kind, and finds a resource's strategy here.

All hooks are optional.

A strategy never does I/O and never reads a clock: what it needs comes in its context. Objects are dicts in
the *hub* version: the version this server stores (`ctx.resource.storage`), already decoded, defaulted,
converted and normalised. A hook that takes the object and returns nothing changes it in place. `old` is never
changed.

The order of a create, as upstream's `rest.BeforeCreate` (k8s.io/apiserver/pkg/registry/rest/create.go, 1.36):
wiped system metadata, mutating admission, name, uid and creation time, `prepare_for_create`, generation,
disabled fields dropped, `create_checks`, `warnings`, validating admission. Of an update:
`prepare_for_update`, disabled fields dropped, generation, `update_checks`, `update_warnings`.

`Check` names the checks of a write, which each strategy puts in order for itself. Upstream's functions call
one another: ValidateFooUpdate often begins with ValidateFoo, and a strategy's ValidateUpdate may call both.
Each call adds its errors, so one error is reported as often as its check is called, and the causes of a 422
say so. A strategy here lists its checks as upstream calls them, the same one several times where upstream
does: `create_checks` and `update_checks`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum, auto
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from kubeskew.apimachinery import names
from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.authorization import Decision
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.metrics import StrategyMetrics
from kubeskew.apiserver.registry.generic import schema_validation
from kubeskew.apiserver.registry.index import registered
from kubeskew.apiserver.storage.encoding import copied
from kubeskew.apiserver.user import User

_MAX_GENERATED = 63 - 5
_CUSTOM = "kubeskew.apiserver.registry.apiextensions.customresource"  # imported when first needed


class Check(StrEnum):
    """METADATA, STRUCTURE and OWN_RULES are about an object, the others about a change."""

    METADATA = auto()  # the metadata as those of a new object (ValidateObjectMeta)
    METADATA_CHANGE = auto()  # what of the metadata may change (ValidateObjectMetaUpdate)
    STRUCTURE = auto()  # what follows from the schema: required fields, enumerations, list types
    OWN_RULES = auto()  # the kind's rules for a new object: `validate`, in an update `validate_as_new`
    CHANGE = auto()  # the kind's rules for a change: `validate_update`


Checks = tuple[Check, ...]
CREATE: Checks = (Check.METADATA, Check.STRUCTURE, Check.OWN_RULES)
UPDATE: Checks = (Check.METADATA_CHANGE, Check.STRUCTURE, Check.CHANGE)
UPDATE_AS_NEW: Checks = (Check.METADATA_CHANGE, Check.STRUCTURE, Check.OWN_RULES, Check.CHANGE)
AS_NEW_AND_AS_CHANGE: Checks = (Check.METADATA, Check.OWN_RULES, Check.METADATA_CHANGE, Check.CHANGE)
# In classic DRA ValidateClaimUpdate and its like check the object as a new one; most strategies did so, too.
ONCE_AS_NEW: Checks = (Check.METADATA_CHANGE, Check.METADATA, Check.OWN_RULES, Check.CHANGE)
TWICE_AS_NEW: Checks = (*AS_NEW_AND_AS_CHANGE, Check.METADATA, Check.OWN_RULES)


def once(checks: Checks) -> Checks:
    return tuple(dict.fromkeys(checks))


class StrategyContext(NamedTuple):
    """A strategy may use these features, clock and entropy for one request.

    `resource` is the resource in its hub version. `subresource` is empty for the main resource.
    """

    gates: FeatureGates
    features: Features
    now: datetime
    entropy: Entropy
    catalogue: ResourceTable
    resource: Resource
    user: User
    verb: str  # of the request
    list_entries: Callable[[str, str | None], Iterable[Object]]  # (storage resource, namespace) -> objects
    get_entry: Callable[[str, str, str], Object | None]  # (storage resource, namespace, name) -> object
    subresource: str = ""
    service_ip_range: str = "10.96.0.0/16"
    request_group: str = ""  # the group of the request: events are one resource under two groups
    request_version: str = ""  # the version of what is sent
    authorize: Callable[[User, RequestInfo], Decision] | None = None  # None: everybody may do anything
    dry_run: bool = False
    warn: Callable[[Iterable[str]], None] = lambda _: None  # the writer, even if the write is refused
    counted: StrategyMetrics | None = None  # counts what strategies do
    given: Callable[[], Any] | None = None  # returns the object as it was sent, or made by a patch


def _is_declared(ctx: StrategyContext) -> bool:
    """All rules of the kind's fields are declared: none follow from the schema besides."""
    return ctx.resource.storage_resource in ctx.features.declarative.enforced


class Strategy:
    """A kind with nothing special behaves like this; subclasses say only what differs."""

    allow_create_on_update: ClassVar[bool] = False  # PUT of what does not exist creates it
    allow_unconditional_update: ClassVar[bool] = True  # an update may leave out the resourceVersion
    is_graceful: ClassVar[bool] = False  # a delete is first marked, even with no grace at all (pods)
    returns_deleted_object: ClassVar[bool] = False  # DELETE answers the object, not a Status
    # What DELETE without a policy does with dependents; nothing if empty, and no policy does (events').
    default_propagation: ClassVar[str] = "Background"
    generation_ignores: ClassVar[frozenset[str]] = frozenset(
        {"metadata", "status"}
    )  # fields whose changes do not count
    counts_dropped_fields: ClassVar[bool] = (
        False  # what a change loses, to a gate for one, counts for the generation
    )
    counts_empty_lists: ClassVar[bool] = False  # for the generation: upstream compares with reflect.DeepEqual
    loses_defaults: ClassVar[bool] = False  # by what is reset: stored without them, and read with them
    exclusive: ClassVar[bool] = False  # objects share some values with no other: creates under way count, too
    weight: ClassVar[int] = 1  # cost of checking a byte, relative to other kinds: some compile expressions
    first_generation: ClassVar[int] = 1  # of a kind that counts them; 0: the first change makes it 1
    core_metadata: ClassVar[bool] = True  # finalizers are standard or qualified: not all groups ask that
    create_checks: ClassVar[Checks] = CREATE  # in upstream's order: so are the causes of a 422
    update_checks: ClassVar[Checks] = UPDATE  # one that is named twice reports its errors twice
    has_own_delete: ClassVar[bool] = False  # upstream's storage of the kind has a Delete that marks first
    field_labels: tuple[str, ...] = ()  # selectable besides metadata.name and metadata.namespace
    indexed_field: ClassVar[str] = ""  # by which upstream's watch cache has an index
    blank: ClassVar[Object] = {}  # what Go writes of an object without values, besides its struct's zeroes
    scale: ScalePaths | None = None  # an instance may have its own: of definitions, and of imported kinds
    status: "ClassVar[type[Strategy]]"  # the strategy of the status subresource; set below
    subresources: "ClassVar[Mapping[str, type[Strategy]]]" = {}  # of other object subresources: finalize, ...

    @property
    def effort(self) -> int:
        """Checking any object costs this number of bytes in addition to its size."""
        return 0

    def takes_unconditional_update(self, version: str) -> bool:
        """An update in that version of the API may leave out the resourceVersion.

        The kind's own strategy says it for its subresources, too.
        """
        return self.allow_unconditional_update

    # --- writing -------------------------------------------------------------------------------------------

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        """Fields that a client may not set are reset. The default drops `status` if the kind has that
        subresource."""
        if "status" in ctx.resource.subresources:
            obj.pop("status", None)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        """Only the kind's own rules: the registry checks metadata and structure."""
        return []

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """Fields that a client may not change are reset. The default keeps the old `status`."""
        if "status" in ctx.resource.subresources:
            keep(new, old, "status")

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """A changed object is checked as a new one; `old` may excuse some errors."""
        return self.validate(new, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Rules of the kind for changes. The default checks `new` as a new object."""
        return self.validate_as_new(new, old, ctx)

    def create_checks_for(self, ctx: StrategyContext) -> Checks:
        """Subclasses override this where `create_checks` depend on version or gates."""
        return self.create_checks

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        """Subclasses override this where `update_checks` depend on version or gates; each is made once for a
        kind that the release checks once."""
        resource = ctx.resource.storage_resource
        if resource in ctx.features.requests.checked_once:
            return once(self.update_checks)
        return self.update_checks

    def checks_metadata(self, ctx: StrategyContext) -> bool:
        """False means that the generic rules check all of the metadata, and last."""
        return True

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        namespaced = ctx.resource.namespaced
        meta = obj["metadata"]
        return object_meta.validate_object_meta(meta, namespaced, self.name_check, core=self.core_metadata)

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        """`metadata` are the errors of the object's metadata."""
        errors: list[FieldError] = []
        for check in self.create_checks_for(ctx):
            if check is Check.METADATA:
                errors += metadata
            elif check is Check.STRUCTURE:
                if not _is_declared(ctx):
                    errors += schema_validation.validate(obj, ctx.resource.schema)
            elif check is Check.OWN_RULES:
                errors += self.validate(obj, ctx)
            else:
                raise ValueError(f"a new object has no {check}: it belongs to update_checks")
        return errors

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        """`metadata` are the errors of the metadata's change.

        What upstream checks twice is reported twice, but looked for once.
        """
        checks, errors = self.update_checks_for(ctx), {Check.METADATA_CHANGE: metadata}
        for check in checks:
            if check not in errors:
                errors[check] = self._errors_of_change(check, new, old, ctx)
        return [error for check in checks for error in errors[check]]

    def _errors_of_change(
        self, check: Check, new: Object, old: Object, ctx: StrategyContext
    ) -> list[FieldError]:
        if check is Check.CHANGE:
            return self.validate_update(new, old, ctx)
        if check is Check.METADATA:
            return self.metadata_errors(new, ctx)
        if check is Check.OWN_RULES:
            return self.validate_as_new(new, old, ctx)
        # What a subresource writes has no structural rules.
        if ctx.subresource or _is_declared(ctx):
            return []
        return schema_validation.validate_update(new, old, ctx.resource.schema)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        """Texts go into Warning headers."""
        return []

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return self.warnings(new, ctx)

    def drops_disabled(self, ctx: StrategyContext) -> bool:
        """An update loses the fields of gates that are off."""
        return True

    def counts_generation(self, ctx: StrategyContext) -> bool:
        """`metadata.generation` starts at 1 and grows with changes outside metadata and status."""
        return ctx.resource.custom

    def name_check(self, name: str, prefix: bool) -> list[str]:
        """`name` is a generateName if `prefix`; no texts mean that it is fine."""
        return names.dns1123_subdomain(name, prefix)

    def generated_name(self, prefix: str, suffix: str) -> str:
        return prefix[:_MAX_GENERATED] + suffix

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        """A write through this strategy ignores these paths, so that nobody comes to own them by it."""
        return (("status",),) if "status" in ctx.resource.subresources else ()

    # --- deleting ------------------------------------------------------------------------------------------

    orphans_with_warning: ClassVar[str] = ""  # the warning of a DELETE without a policy, if any

    def graceful_period(self, obj: Object, options: Object) -> int:
        """Seconds of grace; 0 deletes at once.

        `options` may hold `gracePeriodSeconds`; only kinds with graceful deletion (pods) look at it.
        """
        return 0

    def policy_of_mark(self, options: Object) -> str:
        """Names what becomes of the dependents of an object that `stays_after_delete`; an empty text leaves
        its finalizers alone."""
        return ""

    def mark_deleted(self, obj: Object, ctx: StrategyContext) -> None:
        """`obj` has got its deletionTimestamp but stays (a namespace's phase)."""

    def stays_after_delete(self, obj: Object) -> bool:
        """Deleted objects may stay for more than metadata.finalizers (a namespace's spec.finalizers)."""
        return False

    # --- reading -------------------------------------------------------------------------------------------

    def labels_in(self, group: str, features: Features) -> tuple[str, ...]:
        """Requests of a group may select by these fields: events are in two groups."""
        return self.field_labels

    def fields(self, obj: Object) -> dict[str, str]:
        """The default reads `field_labels` as paths into the object."""
        metadata = obj.get("metadata", {})
        found = {
            "metadata.name": metadata.get("name", ""),
            "metadata.namespace": metadata.get("namespace", ""),
        }
        for first, labels in _paths(self.field_labels):
            part = obj.get(first)
            for label, rest in labels:
                value = part
                for name in rest:
                    value = value.get(name) if isinstance(value, dict) else None
                found[label] = value if value.__class__ is str else show(value)
        return found


class StatusStrategy(Strategy):
    """Everything but `status` stays as it was.

    Metadata stays too, except managedFields (`metav1.ResetObjectMetaForStatus`), which the field manager has
    already worked out for this write, and the resourceVersion.
    """

    kept_metadata: ClassVar[tuple[str, ...]] = (
        "deletionTimestamp",
        "generation",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    )

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        for name in sorted((new.keys() | old.keys()) - {"apiVersion", "kind", "metadata", "status"}):
            keep(new, old, name)
        for name in self.metadata_kept(ctx):
            keep(new["metadata"], old["metadata"], name)

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        """Metadata that stays may depend on version or gates."""
        return self.kept_metadata

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return False

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("metadata",)) if ctx.resource.custom else (("spec",),)


Strategy.status = StatusStrategy


def keep(new: Object, old: Object, name: str) -> None:
    if name in old:
        new[name] = copied(old[name])
    else:
        new.pop(name, None)


def at_path(obj: Any, path: str) -> Any:
    """None means that there is no value at the dotted path."""
    for name in path.split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


@lru_cache(maxsize=1024)
def _paths(labels: tuple[str, ...]) -> Sequence[tuple[str, Sequence[tuple[str, Sequence[str]]]]]:
    """Field labels stand under the first name of their paths, with the other names."""
    found: dict[str, list[tuple[str, Sequence[str]]]] = {}
    for label in labels:
        first, *rest = label.split(".")
        found.setdefault(first, []).append((label, rest))
    return list(found.items())


def show(value: Any) -> str:
    """Field selectors compare this text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@cache
def strategy_of(kind: GroupResource, version: str = "", preview: str = "") -> type[Strategy]:
    """A kind with nothing particular has the general strategy. `version` is that of the hub, `preview` the
    name of a preview release."""
    names = *(f"{prefix}.{kind.resource}" for prefix in (preview, version) if prefix), kind.resource
    strategy: type[Strategy] = registered(kind.group, "STRATEGIES", *names) or Strategy
    return strategy


def strategies_of(resource: Resource, preview: str) -> tuple[Strategy, Strategy]:
    """The second strategy is that of the status; both are made for the resource alone."""
    if resource.custom:
        module = import_module(_CUSTOM)
        return module.InstanceStrategy(resource), module.InstanceStatusStrategy(resource)
    strategy = strategy_of(resource.group_resource, resource.version, preview)()
    if strategy.scale is None and _is_scaled(resource):
        strategy.scale = ScalePaths()  # a kind without code of its own
    return strategy, strategy.status()


def _is_scaled(resource: Resource) -> bool:
    """The kind has the subresource, and the replicas where all upstream's kinds have them."""
    spec = resource.schema.fields.get("spec")
    return "scale" in resource.subresources and spec is not None and "replicas" in spec.schema.fields
