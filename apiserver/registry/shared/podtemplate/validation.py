"""Pods and templates have specs, whose rules these are, those of scheduling included.

Those of containers and security are modules of their own. Tolerations are those of pods and of runtime
classes, taints those of nodes. What a spec does not have costs nothing here: pods are what is created most.

Sources: pkg/apis/core/validation/validation.go (ValidatePodSpec, ValidatePodTemplateSpec,
validatePodResources, validatePodDNSConfig, ValidateHostAliases, validateHostUsers, validatePodHostName,
validatePodHostNetworkDeps, validateAffinity, validateTopologySpreadConstraints, ValidateTolerations,
validateNodeTaints), 1.36, and validatePodResourceClaims, 1.26 to 1.36; KEP-3063 as drafted, section API, for
claims with a template inside.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ROOT,
    ErrorType,
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    key,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar, needed_at_once
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.registry.index import registered
from kubeskew.apiserver.registry.shared import amounts, selectors
from kubeskew.apiserver.registry.shared.addresses import ip_errors
from kubeskew.apiserver.registry.shared.amounts import HUGEPAGES
from kubeskew.apiserver.registry.shared.internal_values import pod_claim
from kubeskew.apiserver.registry.shared.internal_values import taint as internal_taint
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate import containers, security
from kubeskew.apiserver.registry.shared.podtemplate.containers import (
    PodFacts,
    ephemeral_errors,
    init_containers,
    regular_containers,
)
from kubeskew.apiserver.registry.shared.podtemplate.security import MIRROR, all_containers
from kubeskew.apiserver.registry.shared.volumes import sources

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT_TEXT = "must be in the range 1-100"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_POSITIVE = "must be greater than zero"
_NO_SELECTOR = "must not be specified when labelSelector is not set"
_BOTH = "exists in both matchLabelKeys and labelSelector"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_INTEGER = "^(0|-?[1-9][0-9]*)$"
_INTEGER_TEXT = "must be a valid decimal integer in canonical form"
_OPERATORS = ("Equal", "Exists")
_ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def affinity_errors(affinity: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    if affinity.get("nodeAffinity") is not None:
        yield from _node(affinity["nodeAffinity"], child(path, "nodeAffinity"), options)
    for name in ("podAffinity", "podAntiAffinity"):
        if affinity.get(name) is not None:
            yield from _pods(affinity[name], child(path, name))


def _node(node: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    if node.get(_REQUIRED) is not None:
        at = child(path, _REQUIRED)
        any_value = options.any_affinity_values
        yield from selectors.node_selector_errors(node[_REQUIRED], at, any_value=any_value)
    for position, term in enumerate(node.get(_PREFERRED) or []):
        at = index(child(path, _PREFERRED), position)
        yield from _weight(term, at)
        preference = term.get("preference") or {}
        yield from selectors.node_term_errors(preference, child(at, "preference"), any_value=True)


def _weight(term: Object, path: str) -> Iterator[FieldError]:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(child(path, "weight"), weight, _WEIGHT_TEXT)


def _pods(affinity: Object, path: str) -> Iterator[FieldError]:
    for position, term in enumerate(affinity.get(_REQUIRED) or []):
        yield from _pod_term(term, index(child(path, _REQUIRED), position))
    for position, weighted in enumerate(affinity.get(_PREFERRED) or []):
        at = index(child(path, _PREFERRED), position)
        yield from _weight(weighted, at)
        yield from _pod_term(weighted.get("podAffinityTerm") or {}, child(at, "podAffinityTerm"))


def _pod_term(term: Object, path: str) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        if term.get(name) is not None:
            yield from selectors.selector_errors(term[name], child(path, name))
    for namespace in term.get("namespaces") or []:
        texts = names.dns1123_label(namespace)
        yield from (invalid(child(path, "namespace"), namespace, text) for text in texts)
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    if match or mismatch:
        yield from _label_keys(match, mismatch, term.get("labelSelector"), path)
    topology = term.get("topologyKey") or ""
    at = child(path, "topologyKey")
    if not topology:
        yield required(at, "can not be empty")
    yield from (invalid(at, topology, text) for text in names.qualified_name(topology))


def _label_keys(
    match: list[str], mismatch: list[str], selector: Object | None, path: str
) -> Iterator[FieldError]:
    """The selector must not already have what the label keys add."""
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            yield forbidden(child(path, name), _NO_SELECTOR)
        elif keys:
            yield from _key_names(keys, child(path, name))
    if selector is not None:
        known = set(selector.get("matchLabels") or {})
        places = {name: position for position, name in enumerate(match)}
        for expression in selector.get("matchExpressions") or []:
            name = expression.get("key") or ""
            if name in places and name in known:
                yield invalid(index(path, places[name]), name, _BOTH)
            known.add(name)
    for position, name in enumerate(match):
        if name in mismatch:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(index(child(path, "matchLabelKeys"), position), name, text)


def _key_names(keys: list[str], path: str) -> Iterator[FieldError]:
    for position, name in enumerate(keys):
        yield from (invalid(index(path, position), name, text) for text in names.qualified_name(name))


# --- spread constraints ------------------------------------------------------------------------------------


def spread_errors(constraints: list[Object], path: str, options: PodOptions) -> Iterator[FieldError]:
    for position, constraint in enumerate(constraints):
        at = index(path, position)
        skew = constraint.get("maxSkew") or 0
        if skew <= 0:
            yield invalid(child(at, "maxSkew"), skew, _POSITIVE)
        topology, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not topology:
            yield required(child(at, "topologyKey"), "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(child(at, "whenUnsatisfiable"), action, _ACTIONS)
        pair = (topology, action)
        if any(_pair(other) == pair for other in constraints[position + 1 :]):
            yield duplicate(child(at, "{topologyKey, whenUnsatisfiable}"), f"{{{topology}, {action}}}")
        yield from _domains(constraint.get("minDomains"), action, child(at, "minDomains"))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in _POLICIES:
                yield not_supported(child(at, name), policy, _POLICIES)
        yield from _spread_selector(constraint, at, options)


def _pair(constraint: Object) -> tuple[str, str]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def _domains(least: int | None, action: str, path: str) -> Iterator[FieldError]:
    if least is None:
        return
    if least <= 0:
        yield invalid(path, least, _POSITIVE)
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(path, least, text)


def _spread_selector(constraint: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    keys, selector = constraint.get("matchLabelKeys") or [], constraint.get("labelSelector")
    if keys and options.merged_spread:
        yield from _label_keys(keys, [], selector, path)
    elif keys:
        at = child(path, "matchLabelKeys")
        known = {expression.get("key") for expression in (selector or {}).get("matchExpressions") or []}
        known |= set((selector or {}).get("matchLabels") or {})
        if selector is None:
            yield forbidden(at, _NO_SELECTOR)
        for position, name in enumerate(keys):
            yield from (invalid(index(at, position), name, text) for text in names.qualified_name(name))
            if name in known:
                yield invalid(index(at, position), name, _BOTH)
    if selector is not None:
        yield from selectors.selector_errors(selector, child(path, "labelSelector"))


def toleration_errors(
    tolerations: list[Object], path: str, *, comparisons: bool | None = False
) -> Iterator[FieldError]:
    """`comparisons`: Lt and Gt are operators too (gate TaintTolerationComparisonOperators); None if the
    release does not know them."""
    for position, toleration in enumerate(tolerations):
        at = index(path, position)
        name, operator = toleration.get("key") or "", toleration.get("operator") or ""
        effect = toleration.get("effect") or ""
        if name:
            yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        elif operator != "Exists":
            yield invalid(child(at, "operator"), operator, _ALL_KEYS)
        if effect != "NoExecute" and toleration.get("tolerationSeconds") is not None:
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(child(at, "effect"), effect, text)
        yield from _operator_errors(toleration, operator, at, comparisons=comparisons)
        if effect and effect not in EFFECTS:
            yield not_supported(child(at, "effect"), effect, EFFECTS)


def _operator_errors(
    toleration: Object, operator: str, path: str, *, comparisons: bool | None
) -> Iterator[FieldError]:
    value, at = toleration.get("value") or "", child(path, "operator")
    if operator in {"", "Equal"}:
        texts = names.label_value(value) if value else []
        if texts:
            yield invalid(at, value, ";".join(texts))
    elif operator == "Exists":
        if value:
            yield invalid(at, value, "value must be empty when `operator` is 'Exists'")
    elif operator not in {"Lt", "Gt"} or comparisons is None:
        yield not_supported(at, operator, _OPERATORS)
    elif not comparisons:
        yield not_supported(at, operator, (*_OPERATORS, "Lt", "Gt"))
    else:
        yield from _number_errors(value, child(path, "value"))


def _number_errors(value: str, path: str) -> Iterator[FieldError]:
    if not re.fullmatch(_INTEGER, value):
        yield invalid(path, value, _INTEGER_TEXT)
    if not re.fullmatch("[+-]?[0-9]+", value):
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": invalid syntax')
    elif not -(2**63) <= int(value) < 2**63:
        yield invalid(path, value, f'strconv.ParseInt: parsing "{value}": value out of range')


def taint_errors(taints: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        at = index(path, position)
        name, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
        yield from (invalid(child(at, "key"), name, text) for text in names.qualified_name(name))
        texts = names.label_value(value)
        if texts:
            yield invalid(child(at, "value"), value, ";".join(texts))
        if not effect:
            yield required(child(at, "effect"))
        elif effect not in EFFECTS:
            yield not_supported(child(at, "effect"), effect, EFFECTS)
        if (name, effect) in seen:
            text = "taints must be unique by key and effect pair"
            yield FieldError(ErrorType.DUPLICATE, at, internal_taint(taint), text)
        seen.add((name, effect))


_MAX_SERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARS = 2048
_MAX_HOST_NAME = 64
_OLD_ALIAS = "must be valid IP address"
_CLAIM, _TEMPLATE_NAME, _TEMPLATE = "resourceClaimName", "resourceClaimTemplateName", "template"
_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_INT32 = 2**31 - 1


def pod_resource_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """`path`: that of the spec."""
    resources, at = spec["resources"], child(path, "resources")
    if (spec.get("os") or {}).get("name") == "windows" and options.features.pod_resources_wording:
        yield forbidden(at, "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        verb = "may not" if options.features.pod_resources_wording else "cannot"
        yield forbidden(child(at, "claims"), f"claims {verb} be set for Resources at pod-level")
    names = {claim.get("name") or "" for claim in spec.get("resourceClaims") or ()}
    check = partial(amounts.pod_name_errors, lists_pages=options.features.huge_page_names)
    yield from amounts.requirement_errors(resources, names, at, check)
    yield from _consistency(spec, resources, at)


def _consistency(spec: Object, resources: Object, path: str) -> Iterator[FieldError]:
    """All containers together request no more than the pod, and none may use more than it."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in sorted(_together(spec, "requests").items()):
        if name in requests and amount > Quantity.parse(requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {amount}"
            yield invalid(key(child(path, "requests"), name), requests[name], text)
    for name, amount in sorted(_together(spec, "limits").items()):
        if name.startswith(HUGEPAGES) and name in limits and amount > Quantity.parse(limits[name]):
            text = f"must be greater than or equal to aggregate container limits of {amount}"
            yield invalid(key(child(path, "limits"), name), limits[name], text)
    for position, container in enumerate(spec.get("containers") or []):
        own = (container.get("resources") or {}).get("limits") or {}
        for name in sorted(own):
            if name in limits and Quantity.parse(own[name]) > Quantity.parse(limits[name]):
                at = child(key(index(child(path, "containers"), position), name), "limits")
                yield invalid(at, own[name], f"must be less than or equal to pod limits of {limits[name]}")


def _together(spec: Object, field: str) -> dict[str, Quantity]:
    return needed_at_once(
        (_amounts(container, field) for container in spec.get("containers") or ()),
        (
            (is_sidecar(container), _amounts(container, field))
            for container in spec.get("initContainers") or ()
        ),
    )


def _amounts(container: Object, field: str) -> dict[str, Quantity]:
    given = (container.get("resources") or {}).get(field) or {}
    return {name: Quantity.parse(text) for name, text in given.items()}


def dns_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(child(path, "nameservers"), text)
            return
    if config is None:
        return
    at = child(path, "nameservers")
    if len(servers) > _MAX_SERVERS:
        yield invalid(at, servers, f"must not have more than {_MAX_SERVERS} nameservers")
    for position, server in enumerate(servers):
        yield from ip_errors(index(at, position), server, strict=options.strict_addresses)
    yield from _search_errors(config.get("searches") or [], child(path, "searches"), options)
    for position, option in enumerate(config.get("options") or []):
        if not option.get("name"):
            yield required(index(child(path, "options"), position), "must not be empty")


def _search_errors(searches: list[str], path: str, options: PodOptions) -> Iterator[FieldError]:
    if len(searches) > _MAX_SEARCHES:
        yield invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_CHARS:
        text = f"must not have more than {_MAX_SEARCH_CHARS} characters (including spaces) in the search list"
        yield invalid(path, searches, text)
    check = names.dns1123_subdomain_underscore if options.relaxed_dns else names.dns1123_subdomain
    for position, search in enumerate(searches):
        if search == "." and options.relaxed_dns:
            continue
        plain = search.removesuffix(".")
        yield from (invalid(index(path, position), plain, text) for text in check(plain))


def alias_errors(aliases: list[Object], path: str, options: PodOptions) -> Iterator[FieldError]:
    """Releases before 1.30 name no positions."""
    numbered = options.features.numbers_aliases
    for position, alias in enumerate(aliases):
        where = index(path, position) if numbered else path
        address = alias.get("ip") or ""
        problems = ip_errors(child(where, "ip"), address, strict=options.strict_addresses)
        yield from problems if numbered else (replace(one, detail=_OLD_ALIAS) for one in problems)
        for number, host in enumerate(alias.get("hostnames") or []):
            at = child(where, "hostnames")
            at = index(at, number) if numbered else at
            yield from (invalid(at, host, text) for text in names.dns1123_subdomain(host))


def host_network_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """Host ports equal container ports on the node's network; templates may leave them out."""
    for number, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (options.is_pod or host) and host != (port.get("containerPort") or 0):
                at = index(child(index(child(path, "containers"), number), "ports"), position)
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(child(at, "hostPort"), host, text)


def host_user_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    """A pod with users of its own shares no other namespace with its node."""
    field = "hostUsers" if options.features.host_users_wording else "pod.Spec.HostUsers"
    text = f"when `{field}` is false"
    if spec.get("hostNetwork") and not options.host_network_users:
        yield forbidden(child(path, "hostNetwork"), text)
    for name, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield forbidden(child(path, shown), text)
    if options.features.host_users_devices:
        for container, at in all_containers(spec, path):
            if container.get("volumeDevices"):
                yield forbidden(child(at, "volumeDevices"), text)


def host_name_errors(spec: Object, path: str) -> Iterator[FieldError]:
    name, at = spec["hostnameOverride"], child(path, "hostnameOverride")
    if spec.get("setHostnameAsFQDN"):
        yield forbidden(at, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield forbidden(at, "may not be specified when hostNetwork is true")
    if len(name.encode()) > _MAX_HOST_NAME:
        yield too_long(at, _MAX_HOST_NAME)
    yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))


def claim_errors(
    claims: list[Object], path: str, features: PodFeatures, pod: Object | None
) -> Iterator[FieldError]:
    """`pod`: the metadata of a real pod, not given for templates."""
    if MIRROR in ((pod or {}).get("annotations") or {}) and not features.mirrors_may_claim:
        yield from (forbidden(ROOT, "static pods do not support resource claims") for _ in claims)
        return
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        at = index(path, position)
        name = claim.get("name") or ""
        if not name:
            yield required(child(at, "name"))
        elif name in seen:
            yield duplicate(child(at, "name"), name)
        else:
            yield from (invalid(child(at, "name"), name, text) for text in names.dns1123_label(name))
            seen.add(name)
        nested = features.nested_claim_sources
        source = (claim.get("source") or {}) if nested else claim
        yield from _source_errors(source, child(at, "source") if nested else at, features)
        if features.final_claim_names and pod is not None and name and source.get(_CLAIM) is None:
            texts = names.dns1123_subdomain(f"{pod.get('name') or ''}-{name}")
            yield from (invalid(child(at, "name"), name, f"final ResourceClaim name: {t}") for t in texts)


def _source_errors(source: Object, path: str, features: PodFeatures) -> Iterator[FieldError]:
    """A claim has exactly one source."""
    sources = (_CLAIM, _TEMPLATE if features.inline_claim_templates else _TEMPLATE_NAME)
    used = [name for name in sources if source.get(name) is not None]
    shown = pod_claim(source, sources, named=not features.nested_claim_sources)
    if len(used) > 1:
        listed = " or ".join(f"`{name}`" for name in sources)
        yield invalid(path, shown, f"at most one of {listed} may be specified")
    elif not used:
        listed = ", ".join(f"`{name}`" for name in sources)
        yield invalid(path, shown, f"must specify one of: {listed}")
    for field in used:
        at, value = child(path, field), source[field]
        if field == _TEMPLATE:
            yield from registered("cdi.k8s.io", "POD_CLAIM_TEMPLATES", "errors")(value, at)
        elif features.claim_sources_checked:
            yield from (invalid(at, value, text) for text in names.dns1123_subdomain(value))


def pod_spec_errors(
    spec: Object, path: str, options: PodOptions, pod: Object | None = None
) -> list[FieldError]:
    """`pod`: the metadata of a real pod, not given for templates."""
    errors: list[FieldError] = []
    get = spec.get
    grace = get("terminationGracePeriodSeconds")
    if grace is None:
        errors.append(required(child(path, "terminationGracePeriodSeconds")))
    known: dict[str, Object] = {}
    if get("volumes"):
        pod_name = (pod or {}).get("name") or ""
        found, known = sources.volume_errors(spec["volumes"], child(path, "volumes"), options, pod_name)
        errors += found
    if get("resourceClaims"):
        errors += claim_errors(spec["resourceClaims"], child(path, "resourceClaims"), options.features, pod)
    facts = PodFacts(
        volumes=known,
        claims={claim.get("name") or "" for claim in get("resourceClaims") or ()} - {""},
        grace_seconds=grace,
        restart_policy=get("restartPolicy") or "",
        host_users=get("hostUsers") is not False,
        system=None if get("os") is None else spec["os"].get("name") or "",
        options=options,
    )
    errors += regular_containers(get("containers") or [], facts, child(path, "containers"))
    if get("initContainers"):
        errors += init_containers(spec, facts, child(path, "initContainers"))
    if get("ephemeralContainers"):
        errors += ephemeral_errors(spec, facts, path)
    if get("resources") is not None and options.pod_resources:
        errors += pod_resource_errors(spec, path, options)
    errors += _rest(spec, path, options)
    return errors


def _rest(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    get = spec.get
    if get("hostNetwork"):
        errors += host_network_errors(spec, path, options)
    for field, allowed in (("restartPolicy", _RESTART), ("dnsPolicy", _DNS)):
        value = get(field)
        if value not in allowed:
            at = child(path, field)
            errors.append(not_supported(at, value, allowed) if value else required(at))
    if get("nodeSelector"):
        errors += object_meta.validate_labels(spec["nodeSelector"], child(path, "nodeSelector"))
    if get("securityContext") or get("shareProcessNamespace"):
        errors += security.pod_security_errors(spec, child(path, "securityContext"), options)
    if get("affinity"):
        errors += affinity_errors(spec["affinity"], child(path, "affinity"), options)
    if get("dnsConfig") is not None or get("dnsPolicy") == "None":
        errors += dns_errors(spec, child(path, "dnsConfig"), options)
    if get("readinessGates") or get("schedulingGates"):
        errors += _gates(spec, path)
    if get("topologySpreadConstraints"):
        at = child(path, "topologySpreadConstraints")
        errors += spread_errors(spec["topologySpreadConstraints"], at, options)
    errors += security.host_process_errors(spec, path)
    if get("hostUsers") is False:
        errors += host_user_errors(spec, path, options)
    if get("hostnameOverride") is not None:
        errors += host_name_errors(spec, path)
    errors += _names(spec, path, options)
    return errors


def _gates(spec: Object, path: str) -> Iterator[FieldError]:
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        at = child(index(child(path, "readinessGates"), position), "conditionType")
        value = gate.get("conditionType") or ""
        yield from (invalid(at, value, text) for text in names.qualified_name(value))
    seen: set[str] = set()
    for position, gate in enumerate(spec.get("schedulingGates") or ()):
        at, name = index(child(path, "schedulingGates"), position), gate.get("name") or ""
        yield from (invalid(at, name, text) for text in names.qualified_name(name))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def _bad_names(spec: Object, path: str, fields: Sequence[str], check: names.NameCheck) -> list[FieldError]:
    return [
        invalid(child(path, field), spec[field], text)
        for field in fields
        if spec.get(field)
        for text in check(spec[field], False)
    ]


def _names(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    yield from _bad_names(spec, path, ("serviceAccountName", "nodeName"), names.dns1123_subdomain)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        yield invalid(child(path, "activeDeadlineSeconds"), deadline, names.range_text(1, _MAX_INT32))
    if spec.get("hostname") or spec.get("subdomain"):
        yield from _bad_names(spec, path, ("hostname", "subdomain"), names.dns1123_label)
    if spec.get("tolerations"):
        found, at = spec["tolerations"], child(path, "tolerations")
        yield from toleration_errors(found, at, comparisons=options.known_comparisons)
    if spec.get("hostAliases"):
        yield from alias_errors(spec["hostAliases"], child(path, "hostAliases"), options)
    if spec.get("priorityClassName"):
        yield from _bad_names(spec, path, ("priorityClassName",), names.dns1123_subdomain)
    runtime = spec.get("runtimeClassName")
    if runtime is not None:
        at = child(path, "runtimeClassName")
        yield from (invalid(at, runtime, text) for text in names.dns1123_subdomain(runtime))
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in _PREEMPTION:
        at = child(path, "preemptionPolicy")
        yield not_supported(at, preemption, _PREEMPTION) if preemption else required(at)
    if spec.get("overhead"):
        yield from amounts.requirement_errors({"limits": spec["overhead"]}, (), child(path, "overhead"))
    if spec.get("os") is not None:
        yield from security.system_errors(spec, path, options.features)
    if spec.get("schedulingGroup") is not None:
        yield from _group(spec["schedulingGroup"], child(path, "schedulingGroup.podGroupName"))
    yield from containers.file_volume_errors(spec, path)


def _group(group: Object, path: str) -> Iterator[FieldError]:
    name = group.get("podGroupName")
    if name is None:
        yield invalid(path, None, "must specify one of: `podGroupName`")
    else:
        yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name))


def template_errors(template: Object, path: str, options: PodOptions) -> list[FieldError]:
    """Upstream's paths of labels and annotations lack `metadata`."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    at, inside = child(path, "annotations"), child(path, "spec")
    errors = object_meta.validate_labels(labels, child(path, "labels"))
    if annotations:
        errors += object_meta.validate_annotations(annotations, at)
        errors += security.annotation_errors(annotations, spec, at)
    errors += pod_spec_errors(spec, inside, options)
    if annotations:
        errors += security.mismatch_errors(annotations, spec, inside)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(child(inside, "ephemeralContainers"), text))
    return errors
