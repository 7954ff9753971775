"""Writes Kubernetes source trees for tests, of the facts and documents that kubeskew has of a minor.

A tree has what the readers of `kubeskew/releases/tree` read, in the shapes of upstream's sources, no more:
types, documents, discovery, gates, roles, and so on. `Tree.write` makes the files; what a test changes before
that is what an enhancement's author would change in a branch.
"""

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from written_trees import version_file, write_files

from kubeskew.apimachinery.catalogue import catalogue_for, data
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver import openapi
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.routes import discovery
from kubeskew.releases.catalogue.inputs import Inputs
from kubeskew.releases.catalogue.resources import package

FACTS = Path(__file__).parents[1] / "hack" / "catalogue" / "facts"
_PACKAGES = {
    "metav1": "k8s.io/apimachinery/pkg/apis/meta/v1",
    "resource": "k8s.io/apimachinery/pkg/api/resource",
    "intstr": "k8s.io/apimachinery/pkg/util/intstr",
    "types": "k8s.io/apimachinery/pkg/types",
    "apimachinerytypes": "k8s.io/apimachinery/pkg/types",
    "runtime": "k8s.io/apimachinery/pkg/runtime",
    "v1": "k8s.io/api/core/v1",
    "corev1": "k8s.io/api/core/v1",
    "apiv1": "k8s.io/api/core/v1",
    "batchv1": "k8s.io/api/batch/v1",
    "authenticationv1": "k8s.io/api/authentication/v1",
    "authorizationv1": "k8s.io/api/authorization/v1",
    "schedulingv1alpha3": "k8s.io/api/scheduling/v1alpha3",
}
# The facts do not say what an alias is of: another version's type of that name, or one of these.
_ALIASES = {
    "IPFamilyPolicyType": "IPFamilyPolicy",
    "ServiceExternalTrafficPolicyType": "ServiceExternalTrafficPolicy",
    "ServiceInternalTrafficPolicyType": "ServiceInternalTrafficPolicy",
}


@dataclass
class Tree:
    """The content of a tree, by subject; tests change it before they write it."""

    minor: int
    types: dict[str, dict[str, Any]]
    swagger: dict[str, Any]
    core: dict[str, Any]  # discovery of /api/v1
    groups: dict[str, Any]  # aggregated discovery of /apis
    gates: dict[str, dict[str, Any]]
    roles: list[dict[str, Any]]  # roles and bindings of a fresh cluster
    storage: dict[str, str]  # "group/Kind" to version
    columns: dict[str, list[list[Any]]]
    resource_gates: dict[str, str]
    kinds: dict[str, tuple[str, set[str]]]  # group and registered kinds by package
    dependencies: dict[str, list[str]]  # gates without which one cannot be on
    files: dict[str, str] = field(default_factory=dict)  # more files, by path

    def add_gate(self, name: str, *, stage: str = "Alpha", default: bool = False) -> None:
        self.gates[name] = {"stage": stage, "default": default, "locked": False}

    def add_field(
        self, package: str, kind: str, name: str, *, type_: str, markers: list[str], schema: Mapping[str, Any]
    ) -> None:
        """An optional field of a type, in Go and in the documents."""
        declared = {"type": type_, "omitempty": True, "markers": ["optional", *markers]}
        self.types[package][kind]["fields"][name] = declared
        definition = self.swagger["definitions"][f"io.k8s.api.{package.replace('/', '.')}.{kind}"]
        definition["properties"][name] = dict(schema)

    def add_kind(self, like: str, kind: str, plural: str, *, group: str, version: str) -> None:
        """A kind with the fields and verbs of another of the same group and version, cluster-scoped or not
        as that one is."""
        of = f"{package(group)}/{version}"
        self.types[of][kind] = copy.deepcopy(self.types[of][like])
        self.types[of][f"{kind}List"] = {
            "fields": {
                "<inline:metav1.TypeMeta>": {"type": "metav1.TypeMeta"},
                "<inline:metav1.ListMeta>": {
                    "type": "metav1.ListMeta",
                    "omitempty": True,
                    "markers": ["optional"],
                },
                "items": {"type": f"[]{kind}"},
            }
        }
        definitions = self.swagger["definitions"]
        prefix = f"io.k8s.api.{of.replace('/', '.')}."
        for name in (like, f"{like}List"):
            text = json.dumps(definitions[prefix + name])
            definitions[prefix + name.replace(like, kind)] = json.loads(
                re.sub(rf"\b{like}(List)?\b", rf"{kind}\1", text)
            )
        served = next(item for item in self.groups["items"] if item["metadata"]["name"] == group)
        listed = next(each for each in served["versions"] if each["version"] == version)["resources"]
        model = next(each for each in listed if each["responseKind"]["kind"] == like)
        made = {key: value for key, value in copy.deepcopy(model).items() if key != "shortNames"}
        made |= {"resource": plural, "singularResource": kind.lower()}
        made["responseKind"]["kind"] = kind
        for below in made.get("subresources", ()):
            below["responseKind"]["kind"] = below["responseKind"]["kind"].replace(like, kind)
        listed.append(made)
        self.storage[f"{group}/{kind}"] = version
        self.kinds[of][1].add(kind)

    def write(self, root: Path) -> Path:
        texts = {
            "pkg/apis/core/types.go": "package core\n",
            **version_file(self.minor),
            "api/openapi-spec/swagger.json": json.dumps(self.swagger),
            "api/discovery/api__v1.json": json.dumps(self.core),
            "api/discovery/aggregated_v2.json": json.dumps(self.groups),
            "pkg/features/kube_features.go": self._features(),
            **{
                f"staging/src/k8s.io/api/{of}/types.go": go_types(of, self.types)
                for of in self.types
            },
            **policy(self.roles),
            "pkg/printers/internalversion/printers.go": self._printers(),
            "pkg/kubeapiserver/default_storage_factory_builder.go": self._storage_factory(),
            **{f"staging/src/{path}/types.go": _go_file("v1", types) for path, types in _machinery().items()},
            **self._registrations(),
            **self._providers(),
            **self.files,
        }  # fmt: skip
        write_files(root, texts)
        return root

    def _registrations(self) -> dict[str, str]:
        """`register.go` of each group and version with its kinds, and what installs them."""
        texts = {}
        for of, (group, kinds) in sorted(self.kinds.items()):
            folder, version = of.split("/")
            listed = "".join(f"\t\t&{kind}{{}},\n" for kind in sorted(kinds))
            texts[f"staging/src/k8s.io/api/{of}/register.go"] = (
                f'package {version}\n\nconst GroupName = "{group}"\n\n'
                f'var SchemeGroupVersion = schema.GroupVersion{{Group: GroupName, Version: "{version}"}}\n\n'
                "func addKnownTypes(scheme *runtime.Scheme) error {\n"
                f"\tscheme.AddKnownTypes(SchemeGroupVersion,\n{listed}\t)\n\treturn nil\n}}\n"
            )
            internal = f"pkg/apis/{folder}/{version}"
            texts[f"{internal}/register.go"] = (
                f'package {version}\n\nimport api{version} "k8s.io/api/{of}"\n\n'
                f"var localSchemeBuilder = &api{version}.SchemeBuilder\n\n"
                f'var SchemeGroupVersion = schema.GroupVersion{{Group: "{group}", Version: "{version}"}}\n'
            )
            texts[f"pkg/apis/{folder}/register.go"] = f'package {folder}\n\nconst GroupName = "{group}"\n'
            if folder == "events":
                texts[f"pkg/apis/{folder}/register.go"] = _EVENTS
        for folder in sorted({of.partition("/")[0] for of in self.kinds}):
            versions = [of.partition("/")[2] for of in self.kinds if of.startswith(f"{folder}/")]
            imports = "".join(f'\t"k8s.io/kubernetes/pkg/apis/{folder}/{version}"\n' for version in versions)
            preferred = ", ".join(
                f"{version}.SchemeGroupVersion" for version in sorted(versions, key=_stability)
            )
            texts[f"pkg/apis/{folder}/install/install.go"] = (
                f"package install\n\nimport (\n{imports})\n\nfunc Install(scheme *runtime.Scheme) {{\n"
                f"\tutilruntime.Must(scheme.SetVersionPriority({preferred}))\n}}\n"
            )
        return texts

    def _providers(self) -> dict[str, str]:
        """The storage provider of each group; resources with a gate are put into the map while it is on."""
        texts = {}
        for folder, group in sorted({(of.partition("/")[0], group) for of, (group, _) in self.kinds.items()}):
            lines = [
                f"\tif utilfeature.DefaultFeatureGate.Enabled(features.{gate}) {{\n"
                f'\t\tstorage["{name}"] = s\n\t}}\n'
                for name, gate in sorted(self.resource_gates.items())
                if (group and name.partition(".")[2] == group) or (not group and "." not in name)
            ]
            imports = "".join(
                f'\t"{path}"\n'
                for path in ("k8s.io/apiserver/pkg/util/feature", "k8s.io/kubernetes/pkg/features")
            ).replace('\t"k8s.io/apiserver', '\tutilfeature "k8s.io/apiserver')
            resources = "".join(lines).replace(f".{group}", "") if group else "".join(lines)
            texts[f"pkg/registry/{folder}/rest/storage.go"] = (
                f"package rest\n\nimport (\n{imports})\n\n"
                f"func (p Provider) storage(source Source) {{\n{resources}}}\n\n"
                f'func (p Provider) GroupName() string {{\n\treturn "{group}"\n}}\n'
            )
        return texts

    def _storage_factory(self) -> str:
        """All kinds have the version that the tree stores them in as an override."""
        folders = {group: of.partition("/")[0] for of, (group, _) in sorted(self.kinds.items())}
        listed = [*self.groups["items"], {"versions": [{"resources": _core_rows(self.core)}]}]
        plurals = {
            f"{item.get('metadata', {}).get('name', '')}/{row['responseKind']['kind']}": row["resource"]
            for item in listed
            for version in item["versions"]
            for row in version["resources"]
        }
        lines = [
            f'\t\t{folders[group]}.Resource("{plurals[key]}").WithVersion("{version.rpartition("/")[2]}"),\n'
            for key, version in sorted(self.storage.items())
            if (group := key.partition("/")[0]) in folders and key in plurals and key != _SHARED_EVENT
        ]
        imports = "".join(f'\t"k8s.io/kubernetes/pkg/apis/{folder}"\n' for folder in sorted(folders.values()))
        return (
            f"package kubeapiserver\n\nimport (\n{imports})\n\nfunc NewStorageFactoryConfig() *Config {{\n"
            f"\tresources := []schema.GroupVersionResource{{\n{''.join(lines)}\t}}\n"
            '\tfactory.AddCohabitatingResources(core.Resource("events"), events.Resource("events"))\n}\n'
        )

    def _printers(self) -> str:
        folders = {group: of.partition("/")[0] for of, (group, _) in sorted(self.kinds.items())}
        imports = "".join(f'\t"k8s.io/kubernetes/pkg/apis/{folder}"\n' for folder in sorted(folders.values()))
        imports += f'\tmetav1 "{_PACKAGES["metav1"]}"\n'
        folders["meta"] = "metav1"
        lines, functions = [], []
        for number, (key, columns) in enumerate(sorted(self.columns.items())):
            group, _, kind = key.partition("/")
            if group not in folders or key == _SHARED_EVENT:
                continue
            rows = [
                f"\t\t{{Name: {json.dumps(name)}, Type: {json.dumps(type_)}, Format: {json.dumps(form)}, "
                f"Priority: {priority}}},\n"
                for name, type_, form, priority in columns
            ]
            lines += [f"\tcolumns{number} := []metav1.TableColumnDefinition{{\n", *rows, "\t}\n"]
            lines.append(f"\t_ = h.TableHandler(columns{number}, print{number})\n")
            functions.append(f"func print{number}(obj *{folders[group]}.{kind}) {{\n}}\n")
        handlers = f"func AddHandlers(h printers.PrintHandler) {{\n{''.join(lines)}}}\n"
        return f"package internalversion\n\nimport (\n{imports})\n\n" + "\n".join([handlers, *functions])

    def _features(self) -> str:
        constants = [f'\t{name} featuregate.Feature = "{name}"' for name in sorted(self.gates)]
        specs = [
            f"\t{name}: {{Default: {str(spec['default']).lower()}, PreRelease: featuregate.{spec['stage']}, "
            f"LockToDefault: {str(spec['locked']).lower()}}},"
            for name, spec in sorted(self.gates.items())
        ]
        imported = 'import "k8s.io/component-base/featuregate"\n'
        table = "var defaultKubernetesFeatureGates = map[featuregate.Feature]featuregate.FeatureSpec{\n"
        needed = [f"\t{name}: {{{', '.join(others)}}}," for name, others in sorted(self.dependencies.items())]
        others = (
            "var defaultKubernetesFeatureGateDependencies = map[featuregate.Feature][]featuregate.Feature{\n"
        )
        return "\n".join(
            [
                *("package features\n", imported, "const (", *constants, ")\n"),
                *(table + "\n".join(specs), "}\n", others + "\n".join(needed), "}\n"),
            ]
        )


def tree(minor: int = 37) -> Tree:
    """The tree of a minor as it is shipped."""
    return copy.deepcopy(_tree(minor))


@cache
def _tree(minor: int) -> Tree:
    version = Version(minor)
    gates = FeatureGates(version)
    everything = FeatureGates(version, {"AllAlpha": True, "AllBeta": True, "OpenAPIEnums": False})
    table = catalogue_for(version, everything, {"api/all": True})
    document, at_minor, _ = data.release(version)
    roles = DefaultRoles(gates)
    return Tree(
        minor,
        copy.deepcopy(Inputs(FACTS).document("types", minor)["types"]),
        openapi.v2(table, Features.of(everything).documents),
        discovery.resource_list(table, "", "v1"),
        discovery.aggregated(table, False, False),
        {
            name: spec._asdict()
            for name in gates.known()
            if (spec := gates.spec(name)) and name not in ("AllAlpha", "AllBeta")
        },
        [
            made
            for make in (roles.cluster_roles, roles.cluster_role_bindings, roles.roles, roles.role_bindings)
            for made in make()
            if not made["metadata"]["name"].startswith("kubeskew:")
        ],
        {
            key: value.rpartition("/")[2]
            for key, history in document["storage"].items()
            if (value := data.at(history, at_minor))
        },
        {key: value for key, history in document["columns"].items() if (value := data.at(history, at_minor))},
        {
            name: gate
            for name, history in Inputs(FACTS).table("discovery")["gates"].items()
            if (gate := data.at(history, minor))
        },
        _kinds(document["resources"], minor),
        {name: list(needed) for name in gates.known() if (needed := gates.needed(name))},
    )


_SHARED_EVENT = "events.k8s.io/Event"  # printed and stored as the core group's


def _stability(version: str) -> tuple[bool, bool, str]:
    return "alpha" in version, "beta" in version, version


_EVENTS = """package events

import "k8s.io/kubernetes/pkg/apis/core"

const GroupName = "events.k8s.io"

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &core.Event{}, &core.EventList{})
	return nil
}
"""


def _core_rows(listed: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"resource": row["name"], "responseKind": {"kind": row["kind"]}} for row in listed["resources"]]


_POLICY = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
_BUILDERS = {
    "apiGroups": "Groups",
    "resources": "Resources",
    "resourceNames": "Names",
    "nonResourceURLs": "URLs",
}
_OF_CONTROLLERS = "system:controller:"


def policy(objects: list[dict[str, Any]]) -> dict[str, str]:
    """The Go functions that make these roles and bindings."""
    lines: dict[str, list[str]] = {
        "ClusterRole": [], "ClusterRoleBinding": [], "Controller": [], "Role": [], "RoleBinding": []
    }  # fmt: skip
    for made in objects:
        name, namespace = made["metadata"]["name"], made["metadata"].get("namespace", "")
        kind = made["kind"]
        if kind.endswith("Binding"):
            if not name.startswith(_OF_CONTROLLERS) or namespace:
                lines[kind].append(_go_binding(made, name, namespace))
        elif kind == "ClusterRole" and name.startswith(_OF_CONTROLLERS):
            lines["Controller"].append(
                f"\taddControllerRole(&roles, &bindings, rbacv1.ClusterRole{_go_role(made)})\n"
            )
        elif kind == "Role":
            role = f"rbacv1.Role{_go_role(made)}"
            lines[kind].append(f"\taddNamespaceRole({json.dumps(namespace)}, {role})\n")
        else:
            lines[kind].append(f"\t\t{_go_role(made)},\n")
    package = "package bootstrappolicy\n\n"
    cluster, bindings = "".join(lines["ClusterRole"]), "".join(lines["ClusterRoleBinding"])
    return {
        f"{_POLICY}/policy.go": (
            f"{package}func ClusterRoles() []rbacv1.ClusterRole {{\n"
            f"\troles := []rbacv1.ClusterRole{{\n{cluster}\t}}\n\treturn roles\n}}\n\n"
            "func ClusterRoleBindings() []rbacv1.ClusterRoleBinding {\n"
            f"\tbindings := []rbacv1.ClusterRoleBinding{{\n{bindings}\t}}\n\treturn bindings\n}}\n"
        ),
        f"{_POLICY}/controller_policy.go": (
            f"{package}func buildControllerRoles() ([]rbacv1.ClusterRole, []rbacv1.ClusterRoleBinding) {{\n"
            "\troles, bindings := []rbacv1.ClusterRole{}, []rbacv1.ClusterRoleBinding{}\n"
            f"{''.join(lines['Controller'])}\treturn roles, bindings\n}}\n"
        ),
        f"{_POLICY}/namespace_policy.go": (
            f"{package}func init() {{\n{''.join(lines['Role'])}{''.join(lines['RoleBinding'])}}}\n"
        ),
    }


def _go_role(made: Mapping[str, Any]) -> str:
    metadata = made["metadata"]
    labels = {key: value for key, value in metadata["labels"].items() if "bootstrapping" not in key}
    named = f"Name: {json.dumps(metadata['name'])}"
    if labels:
        named += f", Labels: map[string]string{json.dumps(labels)}"
    fields = [f"ObjectMeta: metav1.ObjectMeta{{{named}}}"]
    if "aggregationRule" in made:
        selectors = ", ".join(
            f"{{MatchLabels: map[string]string{json.dumps(selector['matchLabels'])}}}"
            for selector in made["aggregationRule"]["clusterRoleSelectors"]
        )
        fields.append(
            "AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: "
            f"[]metav1.LabelSelector{{{selectors}}}}}"
        )
    if made.get("rules"):
        rules = ", ".join(_go_rule(rule) for rule in made["rules"])
        fields.append(f"Rules: []rbacv1.PolicyRule{{{rules}}}")
    return "{" + ", ".join(fields) + "}"


def _go_rule(rule: Mapping[str, Any]) -> str:
    built = f"NewRule({_go_strings(rule['verbs'])})"
    for name, method in _BUILDERS.items():
        if name in rule:
            built += f".{method}({_go_strings(rule[name])})"
    return f"rbacv1helpers.{built}.RuleOrDie()"


def _go_binding(made: Mapping[str, Any], name: str, namespace: str) -> str:
    """Bindings of roles of another name have theirs set, as upstream's have."""
    role = made["roleRef"]["name"]
    builder = "NewRoleBinding" if namespace else "NewClusterBinding"
    arguments = [role, namespace] if namespace else [role]
    built = f"rbacv1helpers.{builder}({_go_strings(arguments)})"
    for subject in made.get("subjects", ()):
        match subject["kind"]:
            case "ServiceAccount":
                built += f".SAs({_go_strings([subject['namespace'], subject['name']])})"
            case kind:
                built += f".{kind}s({_go_strings([subject['name']])})"
    built += ".BindingOrDie()"
    if not namespace:
        return f"\t\t{built},\n"
    variable = "binding" + re.sub(r"\W", "", name + namespace)
    return (
        f"\t{variable} := {built}\n\t{variable}.Name = {json.dumps(name)}\n"
        f"\taddNamespaceRoleBinding({json.dumps(namespace)}, {variable})\n"
    )


def _go_strings(values: list[str]) -> str:
    return ", ".join(map(json.dumps, values))


def _kinds(rows: list[dict[str, Any]], minor: int) -> dict[str, tuple[str, set[str]]]:
    found: dict[str, tuple[str, set[str]]] = {}
    for row in rows:
        if row["in"][0] <= minor <= row.get("known", row["in"][1]):
            found.setdefault(f"{package(row['g'])}/{row['v']}", (row["g"], set()))[1].add(row["k"])
    return found


# Constants that markers of defaults name.
_CONSTANTS = """
const (
\tAzureDataDiskCachingReadWrite AzureDataDiskCachingMode = "ReadWrite"
\tAzureSharedBlobDisk AzureDataDiskKind = "Shared"
)
"""


def go_types(of: str, types: Mapping[str, Mapping[str, Any]]) -> str:
    """A `types.go` of a package, `core/v1`."""
    folder, _, version = of.partition("/")
    declared = types[of]
    bodies = [_declaration(name, fact) for name, fact in sorted(declared.items())]
    body = "\n".join(bodies)
    body = re.sub(r"\bv1\.([A-Z]\w*)", lambda found: _qualified(found[1], folder, types), body)
    if of == "core/v1":
        body += _CONSTANTS
    return _with_imports(version, body, _PACKAGES | {f"{folder}v1": f"k8s.io/api/{folder}/v1"})


def _with_imports(package_name: str, body: str, places: Mapping[str, str]) -> str:
    used = sorted(set(re.findall(r"\b(\w+)\.[A-Z]", re.sub(r"//.*|`[^`]*`", "", body))))
    imports = [f'\t{name} "{places.get(name, name)}"' for name in used]
    return "\n".join([f"package {package_name}\n", "import (", *imports, ")\n", body])


@cache
def _machinery() -> dict[str, Any]:
    """Types of the shared machinery by package, as the newest minor has them whose facts know these."""
    found = [
        facts["machinery"] for facts in Inputs(FACTS).documents("types").values() if "machinery" in facts
    ]
    return found[-1]


def _go_file(package_name: str, declared: Mapping[str, Any]) -> str:
    body = "\n".join(_declaration(name, fact) for name, fact in sorted(declared.items()))
    return _with_imports(package_name, body, _PACKAGES)


def _qualified(name: str, folder: str, types: Mapping[str, Mapping[str, Any]]) -> str:
    """The facts have no imports: `v1` is the group's own, core or meta, whichever has the type."""
    if folder != "core" and name in types.get(f"{folder}/v1", {}):
        return f"{folder}v1.{name}"
    return f"corev1.{name}" if name in types["core/v1"] else f"metav1.{name}"


def _declaration(name: str, fact: Mapping[str, Any]) -> str:
    doc = [f"// {marker}" for marker in fact.get("markers", ())]
    if "fields" in fact:
        fields = [line for item in fact["fields"].items() for line in _field(*item)]
        return "\n".join([*doc, f"type {name} struct {{", *fields, "}\n"])
    kind = fact["alias"]
    of = fact.get("of") or _ALIASES.get(name, f"admissionregistrationv1.{name}")
    lines = [*doc, f"type {name} = {of}" if kind == "=" else f"type {name} {kind}"]
    values = (
        [
            f"\t{name}{index} {name} = {json.dumps(value)}"
            for index, value in enumerate(fact.get("values", ()))
        ]
        if kind != "="
        else []
    )
    return "\n".join([*lines, *(["", "const (", *values, ")"] if values else []), ""])


def _field(name: str, fact: Mapping[str, Any]) -> list[str]:
    doc = [f"\t// +{marker}" for marker in fact.get("markers", ())]
    omit = "".join(f",{option}" for option in ("omitempty", "omitzero") if fact.get(option))
    if name.startswith("<inline:"):
        tag = (
            '`json:",inline"`'
            if "Meta" not in fact["type"] or fact["type"].endswith("TypeMeta")
            else f'`json:"metadata{omit}"`'
        )
        return [*doc, f"\t{fact['type']} {tag}"]
    patch = [f'{key}:"{fact[key]}"' for key in ("patchStrategy", "patchMergeKey") if key in fact]
    tags = " ".join([f'json:"{name}{omit}"', *patch])
    go_name = re.sub("[^A-Za-z0-9]", "", name)
    return [*doc, f"\t{go_name[:1].upper()}{go_name[1:]} {fact['type']} `{tags}`"]
