"""StatefulSet: defaults, validation, strategy and cells of tables.

Since 1.34 templates are checked like pods, and those of claims like claims.

Sources: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation/validation.go (ValidateStatefulSet),
pkg/registry/apps/statefulset/strategy.go, 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, forbidden, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.apply.managedfields.scale_handler import ScalePaths
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import selectors, workloads
from kubeskew.apiserver.registry.shared.internal_values import update_strategy
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, template_options
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.podtemplate.security import annotation_errors
from kubeskew.apiserver.registry.shared.podtemplate.validation import template_errors
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims
from kubeskew.apiserver.registry.shared.volumes.claims import default_volume_claim
from kubeskew.apiserver.registry.shared.workloads import HISTORY, WorkloadStrategy
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, containers, ready_replicas
from kubeskew.apiserver.workload_features import WorkloadFeatures

_MANAGEMENT = ("OrderedReady", "Parallel")
_RETENTION = ("Retain", "Delete")
_ROLLING = ("partition", "maxUnavailable")
_ZERO_TEXT = "cannot be 0"
_UPDATABLE = ("replicas", "ordinals", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy",
              "minReadySeconds")  # fmt: skip


def default_stateful_set(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, podManagementPolicy="OrderedReady")
    fill_null(spec, replicas=1, revisionHistoryLimit=HISTORY)
    _stateful_strategy(struct(spec, "updateStrategy"), ctx)
    if ctx.features.workloads.claim_retention:
        fill(struct(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    for claim in each(spec, "volumeClaimTemplates"):
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")  # no matter what was sent
        default_volume_claim(claim, ctx)
    template(spec, ctx)


def _stateful_strategy(strategy: Object, ctx: DefaultingContext) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        struct(strategy, "rollingUpdate")
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None:
        fill_null(rolling, partition=0)
        if ctx.features.workloads.max_unavailable:
            fill_null(rolling, maxUnavailable=1)


@dataclass(frozen=True, slots=True)
class SetOptions:
    """An update is checked neither for what cannot change, nor for what was bad before."""

    service_name: bool
    claim_templates: bool
    pod_template: bool = True

    @classmethod
    def of(cls, features: WorkloadFeatures, *, created: bool, pod_template: bool = True) -> "SetOptions":
        return cls(
            service_name=created and features.service_names_checked,
            claim_templates=created and features.stateful_set_templates,
            pod_template=pod_template and features.stateful_set_templates,
        )


def stateful_set_errors(spec: Object, options: PodOptions, of_set: SetOptions) -> list[FieldError]:
    errors = list(_policy_errors(spec))
    if of_set.claim_templates:
        for position, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            at = index("spec.volumeClaimTemplates", position)
            errors += volumes_claims.claim_errors(claim.get("spec") or {}, child(at, "spec"))
    errors += workloads.not_negative(spec, "spec", "replicas", "minReadySeconds")
    ordinals = spec.get("ordinals") or {}
    errors += workloads.not_negative({"ordinals.start": ordinals.get("start")}, "spec", "ordinals.start")
    service = spec.get("serviceName") or ""
    if of_set.service_name and service:
        errors += [invalid("spec.serviceName", service, text) for text in names.dns1123_label(service)]
    errors += workloads.selector_errors(spec, "statefulset")
    errors += _template_errors(spec, options, of_set)
    errors += workloads.restart_errors(spec, "StatefulSet")
    return errors


def _policy_errors(spec: Object) -> Iterator[FieldError]:
    policy, at = spec.get("podManagementPolicy") or "", "spec.podManagementPolicy"
    if not policy:
        yield required(at)
    elif policy not in _MANAGEMENT:
        yield invalid(at, policy, "must be 'OrderedReady' or 'Parallel'")
    strategy, at = spec.get("updateStrategy") or {}, "spec.updateStrategy"
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if not kind:
        yield required(at)
    elif kind == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            shown = update_strategy(strategy, _ROLLING)["RollingUpdate"]
            yield invalid(child(at, "rollingUpdate"), shown, text)
    elif kind != "RollingUpdate":
        yield invalid(at, update_strategy(strategy, _ROLLING), "must be 'RollingUpdate' or 'OnDelete'")
    elif rolling is not None:
        yield from _rolling_errors(rolling, child(at, "rollingUpdate"))
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    for name in ("whenDeleted", "whenScaled") if retention is not None else ():
        value = (retention or {}).get(name) or ""
        if value not in _RETENTION:
            yield not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", value, _RETENTION)


def _rolling_errors(rolling: Object, path: str) -> Iterator[FieldError]:
    yield from workloads.not_negative(rolling, path, "partition")
    most, at = rolling.get("maxUnavailable"), child(path, "maxUnavailable")
    if most is None:
        return
    yield from workloads.amount_or_percent(most, at)
    if workloads.amount(most) == 0:
        yield invalid(at, most, _ZERO_TEXT)
    yield from workloads.at_most_all(most, at)


def _template_errors(spec: Object, options: PodOptions, of_set: SetOptions) -> Iterator[FieldError]:
    selector, labels = spec.get("selector"), workloads.template_labels(spec)
    fits = workloads.matches(selector, labels)
    if fits is None:
        yield invalid("spec.selector", selector, "")
        return
    if not fits and not selectors.takes_all(selector):
        yield invalid("spec.template.metadata.labels", workloads.shown_labels(spec), workloads.NOT_MATCHING)
    template = spec.get("template") or {}
    if of_set.pod_template:
        yield from template_errors(_as_of_pods(template, spec), "spec.template", options)
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    inside, at = template.get("spec") or {}, "spec.template.annotations"
    yield from object_meta.validate_labels(labels, "spec.template.labels")
    yield from object_meta.validate_annotations(annotations, at)
    yield from annotation_errors(annotations, inside, at)


def _as_of_pods(template: Object, spec: Object) -> Object:
    """Pods of the set get this template: with the volumes that its claims become, and without the names of
    hosts and domains, which the controller sets."""
    inside = {
        name: value
        for name, value in (template.get("spec") or {}).items()
        if name not in {"subdomain", "hostname"}
    }
    claims = dict.fromkeys(
        (claim.get("metadata") or {}).get("name") or "" for claim in spec.get("volumeClaimTemplates") or ()
    )
    if claims:
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
        others = [one for one in inside.get("volumes") or () if (one.get("name") or "") not in claims]
        inside["volumes"] = [*made, *others]
    return {**template, "spec": inside}


def name_errors(name: str, prefix: bool) -> list[str]:
    """Names of its pods are labels, so that the set's name must be one too."""
    return names.dns1123_label(name, prefix)


def update_errors(new: Object, old: Object, features: WorkloadFeatures) -> list[FieldError]:
    free = {*_UPDATABLE, "revisionHistoryLimit"} if features.history_limit_changes else set(_UPDATABLE)
    kept = [{name: value for name, value in spec.items() if name not in free} for spec in (new, old)]
    if kept[0] == kept[1]:
        return []
    history = " 'revisionHistoryLimit'," if features.history_limit_changes else ""
    text = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        f"'updateStrategy',{history} 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"
    )
    return [forbidden("spec", text)]


class StatefulSetStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workloads.stateful_set_status_errors(new.get("status") or {}, old.get("status") or {}))


class StatefulSetStrategy(WorkloadStrategy):
    status = StatefulSetStatus
    scale = ScalePaths()
    blank = {"spec": {"replicas": 0}}  # no pointer in upstream's internal struct

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return name_errors(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        checked = SetOptions.of(ctx.features.workloads, created=True)
        return stateful_set_errors(obj["spec"], template_options(ctx), checked)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """The pod template of a set whose spec had errors before is left out."""
        features, errors = ctx.features.workloads, stateful_set_errors
        options = template_options(ctx, new["spec"], old["spec"])
        checked = SetOptions.of(features, created=False)
        if features.stateful_set_templates and errors(old["spec"], options, checked):
            checked = SetOptions.of(features, created=False, pod_template=False)
        return errors(new["spec"], options, checked)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(update_errors(new["spec"], old["spec"], ctx.features.workloads))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.template_warnings(obj, ctx)

    def template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        found = super().template_warnings(obj, ctx)
        limit = obj["spec"].get("revisionHistoryLimit")
        if limit is not None and limit < 0:
            text = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {text}")
        return found


def stateful_set_cells(subject: Subject) -> Cells:
    return {"Ready": ready_replicas(subject), **containers(subject.at("spec", "template"))}
