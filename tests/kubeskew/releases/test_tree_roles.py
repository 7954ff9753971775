"""Default roles as the bootstrap policy of a source tree makes them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from written_trees import written_tree

from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.roles import roles

HACK = Path(__file__).parents[3] / "hack" / "catalogue"
FOLDER = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/"
POLICY = """package bootstrappolicy

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

var Read = []string{"get", "list"}

const (
	legacyGroup = ""
	own         = "system:own"
)

func ownRules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		// the pods
		rbacv1helpers.NewRule(Read...).Groups(legacyGroup).Resources("pods").RuleOrDie(),
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.Watched) {
		watch := rbacv1helpers.NewRule("watch").Groups(legacyGroup).Resources("pods").Names("a").RuleOrDie()
		rules = append(rules, watch)
	} else {
		rules = append(rules, eventsRule())
	}
	return rules
}

func clusterRoles() []rbacv1.ClusterRole {
	urls := []string{"/readyz"}
	if utilfeature.DefaultFeatureGate.Enabled(features.Watched) {
		urls = append(urls, "/watchz")
	}
	roles := []rbacv1.ClusterRole{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "edit", Labels: map[string]string{"to-admin": "true"}},
			AggregationRule: &rbacv1.AggregationRule{
				ClusterRoleSelectors: []metav1.LabelSelector{
					{MatchLabels: map[string]string{"to-edit": "true"}},
				},
			},
		},
		{ObjectMeta: metav1.ObjectMeta{Name: own}, Rules: ownRules()},
	}
	roles = append(roles, []rbacv1.ClusterRole{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system:monitoring"},
			Rules:      []rbacv1.PolicyRule{rbacv1helpers.NewRule("get").URLs(urls...).RuleOrDie()},
		},
	}...)
	addClusterRoleLabel(roles)
	return roles
}

func ClusterRoleBindings() []rbacv1.ClusterRoleBinding {
	return []rbacv1.ClusterRoleBinding{
		rbacv1helpers.NewClusterBinding(own).Groups("g").Users("u").SAs("kube-system", "a").BindingOrDie(),
		{
			ObjectMeta: metav1.ObjectMeta{Name: "none"},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: own},
		},
	}
}
"""
CONTROLLERS = """package bootstrappolicy

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

const saRolePrefix = "system:controller:"

func addControllerRole(roles *[]rbacv1.ClusterRole, bindings *[]Binding, role rbacv1.ClusterRole) {
	for range *roles {
	}
}

func eventsRule() rbacv1.PolicyRule {
	return rbacv1helpers.NewRule("create").Groups(legacyGroup).Resources("events").RuleOrDie()
}

func buildControllerRoles() ([]rbacv1.ClusterRole, []rbacv1.ClusterRoleBinding) {
	controllerRoles := []rbacv1.ClusterRole{}
	addControllerRole(&controllerRoles, &controllerRoleBindings, func() rbacv1.ClusterRole {
		role := rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: saRolePrefix + "plain"},
			Rules:      []rbacv1.PolicyRule{eventsRule()},
		}
		role.Rules = append(role.Rules, rbacv1helpers.NewRule("list").Resources("*").RuleOrDie())
		return role
	}())
	if utilfeature.DefaultFeatureGate.Enabled(features.Watched) &&
		!utilfeature.DefaultFeatureGate.Enabled(features.Other) {
		rules := []rbacv1.PolicyRule{eventsRule()}
		if utilfeature.DefaultFeatureGate.Enabled(features.Deep) {
			rules = append(rules, eventsRule())
		}
		addControllerRole(&controllerRoles, &controllerRoleBindings, rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: saRolePrefix + "gated"},
			Rules:      rules,
		})
	}
	return controllerRoles, controllerRoleBindings
}
"""
NAMESPACES = """package bootstrappolicy

func init() {
	addNamespaceRole("kube-system", rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{eventsRule()},
	})
	binding := rbacv1helpers.NewRoleBinding("reader", "kube-system").Users("u").BindingOrDie()
	binding.Name = "bound"
	addNamespaceRoleBinding("kube-system", binding)
}
"""
FEATURES = """package features

const (
	Watched = "Watched"
	Other   = "OtherGate"
	Deep    = "Deep"
)
"""
FILES = {
    FOLDER + "policy.go": POLICY,
    FOLDER + "controller_policy.go": CONTROLLERS,
    FOLDER + "namespace_policy.go": NAMESPACES,
    "pkg/features/kube_features.go": FEATURES,
}
EVENTS = {"verbs": ["create"], "apiGroups": [""], "resources": ["events"]}
PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
WATCH = {"verbs": ["watch"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}
ON, OFF = [{"gates": ["Watched"]}], [{"without": ["Watched"]}]
EXPECTED: dict[str, Any] = {
    "clusterRoles": [
        {"name": "edit", "labels": {"to-admin": "true"}, "aggregate": [{"matchLabels": {"to-edit": "true"}}]},
        {"name": "system:own", "rules": [PODS, {**WATCH, "when": ON}, {**EVENTS, "when": OFF}]},
        {
            "name": "system:monitoring",
            "rules": [
                {"verbs": ["get"], "nonResourceURLs": ["/readyz"], "when": OFF},
                {"verbs": ["get"], "nonResourceURLs": ["/readyz", "/watchz"], "when": ON},
            ],
        },
    ],
    "controllerRoles": [
        {"name": "plain", "rules": [EVENTS, {"verbs": ["list"], "resources": ["*"]}]},
        {
            "name": "gated",
            "rules": [EVENTS, {**EVENTS, "when": [{"gates": ["Deep"]}]}],
            "when": [{"gates": ["Watched"], "without": ["OtherGate"]}],
        },
    ],
    "clusterRoleBindings": [
        {
            "name": "system:own",
            "role": "system:own",
            "subjects": [
                {"kind": "Group", "name": "g"},
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "namespace": "kube-system", "name": "a"},
            ],
        },
        {"name": "none", "role": "system:own", "subjects": []},
    ],
    "roles": [{"name": "reader", "namespace": "kube-system", "rules": [EVENTS]}],
    "roleBindings": [
        {
            "name": "bound",
            "namespace": "kube-system",
            "role": "reader",
            "subjects": [{"kind": "User", "name": "u"}],
        }
    ],
}


def test_roles_and_bindings(tmp_path: Path) -> None:
    """Additions below a gate have it as their condition, those of their role apart."""
    assert roles(written_tree(tmp_path, FILES)) == EXPECTED


@pytest.mark.parametrize(
    ("file", "written", "instead", "problem"),
    [
        ("policy.go", "\turls := ", "\tfor range x {\n\t}\n\turls := ", "30: a policy with such a statement"),
        (
            "policy.go",
            "rules = append(rules, watch)",
            "rules = other",
            "22: this is nothing that a policy is",
        ),
        ("policy.go", "rules = append(rules, watch)", "rules = Read", "22: a policy that assigns this"),
        (
            "policy.go",
            "rules = append(rules, watch)",
            "return rules",
            "20: a policy that returns below a gate",
        ),
        ("policy.go", "Enabled(features.Watched)", "Enabled(gate)", "20: this is no string constant"),
        ("controller_policy.go", "Gate.Enabled(features.Deep)", "x", "32: a policy that depends on this"),
        ("namespace_policy.go", "addNamespaceRole(", "addOther(", "4: a policy that calls addOther"),
        ("policy.go", 'NewRule("watch")', 'NewRule("watch").Scoped()', "21: a policy with such a call"),
    ],
)
def test_what_cannot_be_followed_is_named(
    tmp_path: Path, file: str, written: str, instead: str, problem: str
) -> None:
    """An error has the file and the line: roles are never guessed."""
    text = FILES[FOLDER + file]
    assert written in text
    tree = written_tree(tmp_path, {**FILES, FOLDER + file: text.replace(written, instead, 1)})

    with pytest.raises(TreeError, match=f"{file}:{problem}"):
        roles(tree)


def test_a_tree_without_policy_is_refused(tmp_path: Path) -> None:
    """A file of the policy is missing."""
    with pytest.raises(TreeError, match=r"policy.go is missing"):
        roles(written_tree(tmp_path, {}))


def changed_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: dict[str, Any], minor: int, *flags: str
) -> dict[str, Any]:
    """The table after the tool has taken a tree of that minor into it."""
    monkeypatch.syspath_prepend(str(HACK))
    import default_roles

    output = tmp_path / "default_roles.json"
    output.write_text(default_roles.text(table), "utf-8")
    tree = written_tree(tmp_path / str(minor), FILES, minor)
    monkeypatch.setattr(sys, "argv", ["default_roles.py", "--output", str(output), *flags, str(tree.root)])

    default_roles.main()

    changed: dict[str, Any] = json.loads(output.read_text("utf-8"))
    assert output.read_text("utf-8") == default_roles.text(changed)
    return changed


def test_a_table_that_has_the_roles_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates that are written in another way, other minors, previews and our own roles are kept."""
    ours = {"name": "kubeskew:timeline-viewer", "rules": [PODS]}
    later = {"name": "later", "rules": [PODS], "when": [{"since": 37}]}
    preview = {**PODS, "when": [{"preview": "kep3063"}]}
    monitoring = EXPECTED["clusterRoles"][2]
    turned = {**monitoring, "rules": monitoring["rules"][::-1]}
    own = EXPECTED["clusterRoles"][1]
    more = {**own, "rules": [*own["rules"], preview]}
    table = {**EXPECTED, "clusterRoles": [later, EXPECTED["clusterRoles"][0], more, turned, ours]}

    assert changed_table(tmp_path, monkeypatch, table, 36) == table


def test_a_table_gets_and_loses_a_minor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that the tree lacks ends before it, a new one begins there, one of other minors is had again."""
    gone, old = {"verbs": ["gone"], "resources": ["x"]}, {**EVENTS, "when": [{"until": 35}]}
    plain = {"name": "plain", "rules": [gone, EVENTS]}
    bound = {**EXPECTED["roleBindings"][0], "when": [{"until": 35}, {"since": 37}]}
    table = {**EXPECTED, "controllerRoles": [plain], "roleBindings": [bound]}
    table["roles"] = [{"name": "reader", "namespace": "kube-system", "rules": [old]}]

    changed = changed_table(tmp_path, monkeypatch, table, 36)

    added = {"verbs": ["list"], "resources": ["*"]}
    assert changed["controllerRoles"] == [
        {
            "name": "plain",
            "rules": [
                {**gone, "when": [{"until": 35}, {"since": 37}]},
                EVENTS,
                {**added, "when": [{"since": 36, "until": 36}]},
            ],
        },
        {
            **EXPECTED["controllerRoles"][1],
            "when": [{"since": 36, "until": 36, "gates": ["Watched"], "without": ["OtherGate"]}],
        },
    ]
    assert changed["roles"][0]["rules"] == [{**EVENTS, "when": [{"until": 36}]}]
    assert changed["roleBindings"] == EXPECTED["roleBindings"]


def test_the_newest_minor_has_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release after all others brings what stays; a fork's names are left out."""
    table = {**EXPECTED, "controllerRoles": EXPECTED["controllerRoles"][1:], "roles": []}

    changed = changed_table(tmp_path, monkeypatch, table, 38, "--without", "reader,events")

    assert changed["roles"] == []
    assert {
        "name": "plain",
        "rules": [{"verbs": ["list"], "resources": ["*"]}],
        "when": [{"since": 38}],
    } in changed["controllerRoles"]
    assert changed["controllerRoles"][0]["rules"][0] == {**EVENTS, "when": [{"until": 37}]}
