"""Enforces the Pod Security Standards: refuses pods, warns of pods and of workloads.

It checks labels of namespaces too. The levels are in a namespace's labels, and are evaluated for a pod.

Sources, all 1.36: k8s.io/pod-security-admission (admission/admission.go, api/helpers.go, policy/registry.go)
and plugin/pkg/admission/security/podsecurity/admission.go. No exemptions, no defaults but privileged.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupKind, internal
from kubeskew.apimachinery.field import FieldError, invalid, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import is_between
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.podsecurity import checks
from kubeskew.apiserver.admission.podsecurity.checks import Check, Pod, Violation
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")
LATEST = "latest"
_PREFIX = "pod-security.kubernetes.io/"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")
_BAD_LEVEL = f"must be one of {', '.join(LEVELS)}"
_BAD_VERSION = 'must be "latest" or "v1.x"'
_RELAXED_SINCE = 35  # a pod's own user namespace loosens the standards


class Level(NamedTuple):
    """A level is as of a release of the standards; its text is `restricted:v1.25`."""

    name: str = PRIVILEGED
    version: str = LATEST

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def minor(self) -> int | None:
        """None stands for the latest."""
        return None if self.version == LATEST else int(self.version.removeprefix("v1."))


class Policy(NamedTuple):
    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()

    @property
    def is_privileged(self) -> bool:
        return self.enforce.name == self.audit.name == self.warn.name == PRIVILEGED


class _Reader:
    """Reads one label after the other, and collects the errors of those it cannot read."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self.errors: list[FieldError] = []

    def level(self, mode: str, fallback: str) -> tuple[str, bool]:
        """The second value is True if a label set the level; `fallback` replaces an invalid one."""
        value = self._labels.get(_PREFIX + mode)
        if value is None:
            return PRIVILEGED, False
        if value in LEVELS:
            return value, True
        self._refuse(mode, value, _BAD_LEVEL)
        return fallback, False

    def version(self, mode: str) -> str:
        value = self._labels.get(f"{_PREFIX}{mode}-version")
        if value is None or value == LATEST or _VERSION.fullmatch(value):
            return value or LATEST
        self._refuse(f"{mode}-version", value, _BAD_VERSION)
        return LATEST

    def has(self, label: str) -> bool:
        return _PREFIX + label in self._labels

    def _refuse(self, label: str, value: str, why: str) -> None:
        self.errors.append(invalid(key("metadata.labels", _PREFIX + label), value, why))


def read_policy(labels: Mapping[str, str] | None) -> tuple[Policy, list[FieldError]]:
    """An invalid label enforces the most, audits and warns of nothing; the second value has its error."""
    if not labels:
        return Policy(), []
    reader = _Reader(labels)
    enforced, enforcing = reader.level("enforce", RESTRICTED)
    enforce = Level(enforced, reader.version("enforce"))
    audit = Level(reader.level("audit", PRIVILEGED)[0], reader.version("audit"))
    warn = Level(reader.level("warn", PRIVILEGED)[0], reader.version("warn"))
    stricter = LEVELS.index(enforce.name) > LEVELS.index(warn.name)
    if enforcing and stricter and not reader.has("warn"):
        version = warn.version if reader.has("warn-version") else enforce.version
        warn = Level(enforce.name, version)
    return Policy(enforce, audit, warn), reader.errors


class Evaluator:
    """Evaluates the standards of a release; a later version of a level counts as the release's latest."""

    def __init__(self, minor: int) -> None:
        self._minor = minor

    def shown_version(self, level: Level) -> str:
        """Returns the version of a level as metrics show it: `future` is one after this release."""
        later = level.minor is not None and not is_between(level.minor, None, self._minor)
        return "future" if later else level.version

    def violations(self, level: Level, metadata: Object, spec: Object) -> list[Violation]:
        """Violations of baseline come first; both parts stand by the checks' ids."""
        if level.name == PRIVILEGED:
            return []
        wanted = self._minor if level.minor is None else min(level.minor, self._minor)
        pod = Pod(metadata.get("annotations") or {}, spec, relaxes=is_between(wanted, _RELAXED_SINCE, None))
        found = (check(pod) for check in _checks(level.name, wanted))
        return [violation for violation in found if violation is not None]


@cache
def _checks(level: str, minor: int) -> Sequence[Check]:
    extra = () if level == BASELINE else checks.RESTRICTED
    overridden = {name for check in extra if check.at(minor) is not None for name in check.overrides}
    kept = [check for check in checks.BASELINE if check.id not in overridden]
    found = (check.at(minor) for check in (*kept, *extra))
    return tuple(check for check in found if check is not None)


def details(violations: Sequence[Violation]) -> str:
    """The form is `privileged (container "c" must not …), hostPort (…)`."""
    return ", ".join(
        f"{violation.reason} ({violation.detail})" if violation.detail else violation.reason
        for violation in violations
    )


def reasons(violations: Sequence[Violation]) -> str:
    return ", ".join(violation.reason for violation in violations)


_IGNORED = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
# Where what makes pods keeps their template.
_TEMPLATES = {
    "podtemplates": ("template",),
    "replicationcontrollers": ("spec", "template"),
    "replicasets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
}
_NOTE = "pod-security.kubernetes.io/"
_MOST_PODS = 3000
_REMEMBERED = 1000


class _NamespacePolicy(NamedTuple):
    """`revision` is the namespace's; `problem` has the errors of its labels."""

    revision: int
    policy: Policy
    problem: str


class PodSecurity(Plugin):
    operations = frozenset({CREATE, UPDATE})
    awaits = False
    resources = frozenset({"pods", "namespaces", *_TEMPLATES})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._metrics = services.policy_metrics
        self._store = services.store
        self._evaluator = Evaluator(services.features.admission.pod_security_release)
        self._read: TwoGenerationCache[str, _NamespacePolicy] = TwoGenerationCache(_REMEMBERED)

    async def validate(self, attributes: Attributes) -> None:
        resource, obj = attributes.resource.storage_resource, attributes.object
        if obj is None or attributes.subresource in _IGNORED:
            return
        if resource == "pods":
            if attributes.operation == CREATE or _matters(obj, attributes.old or {}):
                self._check(attributes, obj["metadata"], obj["spec"], enforce=True)
        elif attributes.subresource:
            return
        elif resource == "namespaces":
            self._check_namespace(attributes, obj)
        else:
            template = _template(obj, resource)
            if template is not None:
                self._check(attributes, template.get("metadata") or {}, template.get("spec") or {})

    # --- pods, and what makes them -------------------------------------------------------------------------

    def _check(
        self, attributes: Attributes, metadata: Object, spec: Object, *, enforce: bool = False
    ) -> None:
        known = self._policy(attributes.namespace)
        policy = known.policy
        loud = policy if enforce else policy._replace(enforce=Level())
        if loud.is_privileged and not known.problem:
            if enforce:
                attributes.annotations[f"{_NOTE}enforce-policy"] = str(policy.enforce)
                self._count("enforce", policy.enforce, attributes, allowed=True)
            return
        if known.problem:
            attributes.annotations[f"{_NOTE}error"] = f"Failed to parse policy: {known.problem}"
        found = {
            level: details(self._evaluator.violations(level, metadata, spec)) for level in dict.fromkeys(loud)
        }
        if found[loud.audit]:
            text = f'would violate PodSecurity "{loud.audit}": {found[loud.audit]}'
            attributes.annotations[f"{_NOTE}audit-violations"] = text
            self._count("audit", loud.audit, attributes, allowed=False)
        if enforce:
            attributes.annotations[f"{_NOTE}enforce-policy"] = str(policy.enforce)
            self._count("enforce", policy.enforce, attributes, allowed=not found[policy.enforce])
            if found[policy.enforce]:
                raise attributes.refuse(f'violates PodSecurity "{policy.enforce}": {found[policy.enforce]}')
        if found[loud.warn]:
            self._count("warn", loud.warn, attributes, allowed=False)
            attributes.warnings.append(f'would violate PodSecurity "{loud.warn}": {found[loud.warn]}')

    def _count(self, mode: str, level: Level, attributes: Attributes, *, allowed: bool) -> None:
        shown = level.name, self._evaluator.shown_version(level)
        where = attributes.operation, attributes.resource.storage_resource, attributes.subresource
        self._metrics.evaluated(mode, shown, where, allowed=allowed)

    def _policy(self, namespace: str) -> _NamespacePolicy:
        entry = self._store.get(Key("namespaces", "", namespace))
        if entry is None:
            raise internal(f'failed to lookup namespace "{namespace}"')
        known = self._read.get(namespace)
        if known is None or known.revision != entry.revision:
            policy, problems = read_policy(object_of(entry)["metadata"].get("labels"))
            texts = [str(problem) for problem in problems]
            problem = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
            known = _NamespacePolicy(entry.revision, policy, problem)
            self._read.put(namespace, known)
        return known

    # --- namespaces ----------------------------------------------------------------------------------------

    def _check_namespace(self, attributes: Attributes, namespace: Object) -> None:
        name = namespace["metadata"].get("name") or ""
        policy, problems = read_policy(namespace["metadata"].get("labels"))
        before, known = read_policy(((attributes.old or {}).get("metadata") or {}).get("labels"))
        updating = attributes.operation == UPDATE
        if problems and not (updating and problems == known):
            raise errors.invalid(GroupKind("", "Namespace"), name, problems)
        if updating and _is_stricter(policy.enforce, before.enforce):
            attributes.warnings.extend(self._warnings(name, policy.enforce))

    def _warnings(self, namespace: str, level: Level) -> list[str]:
        entries = self._store.list("pods", namespace).entries
        named: dict[str, list[str]] = {}
        for entry in entries[:_MOST_PODS]:
            pod = object_of(entry)
            text = reasons(self._evaluator.violations(level, pod["metadata"], pod["spec"]))
            if text:
                named.setdefault(text, []).append(entry.key.name)
        found = []
        if len(entries) > _MOST_PODS:
            checked = f"{_MOST_PODS} of {len(entries)}"
            found.append(
                f"new PodSecurity enforce level only checked against the first {checked} existing pods"
            )
        if named:
            new = f'the new PodSecurity enforce level "{level}"'
            found.append(f'existing pods in namespace "{namespace}" violate {new}')
        return found + sorted(f"{_listed(names)}: {text}" for text, names in named.items())


def _listed(names: list[str]) -> str:
    first, others = min(names), len(names) - 1
    if not others:
        return first
    return f"{first} (and {others} other {'pod' if others == 1 else 'pods'})"


def _is_stricter(new: Level, old: Level) -> bool:
    """Another version of the standards counts as stricter, since it may refuse more."""
    if new == old or new.name == PRIVILEGED:
        return False
    return new.version != old.version or LEVELS.index(new.name) > LEVELS.index(old.name)


def _template(obj: Object, resource: str) -> Object | None:
    found: Object | None = obj
    for name in _TEMPLATES[resource]:
        found = (found or {}).get(name)
    return found


def _matters(new: Object, old: Object) -> bool:
    """Only another image, or another container, matters to the standards."""
    before, after = old.get("spec") or {}, new["spec"]
    for field in ("containers", "initContainers"):
        ours, theirs = after.get(field) or [], before.get(field) or []
        if [container.get("image") for container in ours] != [container.get("image") for container in theirs]:
            return True
    images = {
        container.get("name"): container.get("image") for container in before.get("ephemeralContainers") or ()
    }
    return any(
        images.get(container.get("name"), "") != container.get("image")
        for container in after.get("ephemeralContainers") or ()
    )
