"""The default roles and bindings of a tree, as its bootstrap policy makes them.

plugin/pkg/auth/authorizer/rbac/bootstrappolicy is a handful of functions that put literals into lists, some
below a feature gate. They are followed statement by statement, both ways of a gate at once: what is added
below one comes with it as its condition. The shapes are those of `apiserver/authorization/default_roles.json`
of one release, without periods.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import (
    Function,
    GoFile,
    TreeError,
    asked_gate,
    assigned,
    statements,
    text_of,
)
from kubeskew.releases.tree.go_values import Literal, Scope, unreadable
from kubeskew.releases.tree.source_tree import SourceTree

_POLICY = "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
_FILES = ("policy.go", "controller_policy.go", "namespace_policy.go")
_CONTROLLER = "system:controller:"
_LABELLED = ("addClusterRoleLabel", "addClusterRoleBindingLabel")
_RULE_FIELDS = {
    "NewRule": "verbs",
    "Groups": "apiGroups",
    "Resources": "resources",
    "Names": "resourceNames",
    "URLs": "nonResourceURLs",
}
_SUBJECTS = {"Groups": "Group", "Users": "User"}
# What is written where something else is expected gives one of these.
_MISSHAPEN = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_BUILT = ("RuleOrDie", "BindingOrDie")

Row = dict[str, Any]
When = frozenset[tuple[str, bool]]  # gates that are on, or off
_ALWAYS: When = frozenset()
_Names = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Item:
    """An element of a list, which is in it under conditions."""

    value: Any
    when: When


@dataclass
class _Rule:
    """A rule that is being built; its lists are those of the fields of a PolicyRule."""

    lists: dict[str, list[_Item]] = field(default_factory=dict)


@dataclass
class _Binding:
    name: str
    role: str
    subjects: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Returned:
    value: Any


def roles(tree: SourceTree) -> dict[str, list[Row]]:
    """Raises TreeError for a statement that such functions have not been seen to have."""
    policy = _Policy(tree)
    cluster_roles = policy.call("clusterRoles", _ALWAYS)
    bindings = policy.call("clusterRoleBindings", _ALWAYS)
    policy.call("buildControllerRoles", _ALWAYS)
    policy.call("init", _ALWAYS)
    try:
        return _rows(policy, cluster_roles, bindings)
    except _MISSHAPEN as error:
        raise TreeError(
            f"{tree.directory(_POLICY)}: its functions make no roles and bindings that can be read "
            f"({type(error).__name__}: {error})"
        ) from None


def _rows(policy: "_Policy", cluster_roles: list[_Item], bindings: list[_Item]) -> dict[str, list[Row]]:
    return {
        "clusterRoles": [_role_row(item) for item in cluster_roles],
        "controllerRoles": [_controller_row(item) for item in policy.controller_roles],
        "clusterRoleBindings": [_binding_row(item) for item in bindings],
        "roles": [_with_namespace(_role_row(item), space) for space, item in policy.namespace_roles],
        "roleBindings": [_with_namespace(_binding_row(item), space) for space, item in policy.role_bindings],
    }


class _Policy:
    """Follows functions of the package. Names that are no local ones are constants of the tree."""

    def __init__(self, tree: SourceTree) -> None:
        self.controller_roles: list[_Item] = []
        self.namespace_roles: list[tuple[str, _Item]] = []
        self.role_bindings: list[tuple[str, _Item]] = []
        self._tree = tree
        self._functions: dict[str, tuple[Function, GoFile]] = {}
        package = tree.package(_POLICY)
        for name in _FILES:
            file = package.needed(name)
            for function in file.functions():
                named = function.name[:1].lower() + function.name[1:]
                self._functions.setdefault(named, (function, file))

    def call(self, name: str, when: When) -> Any:
        """Follows a function without parameters; the case of its first letter does not matter."""
        function, file = self._function(name)
        return self._run(function.body, {}, when, file)

    def _function(self, name: str) -> tuple[Function, GoFile]:
        found = self._functions.get(name[:1].lower() + name[1:])
        if found is None:
            raise TreeError(f"{self._tree.directory(_POLICY)} has no function {name}: restore it")
        return found

    def _run(self, body: Node | None, names: _Names, when: When, file: GoFile) -> Any:
        returned = self._block(body, ChainMap({}, names), when, file) if body is not None else None
        return returned.value if returned is not None else None

    def _block(self, block: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> _Returned | None:
        for statement in statements(block):
            returned = self._statement(statement, names, when, file)
            if returned is not None:
                return returned
        return None

    def _statement(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> _Returned | None:
        try:
            return self._followed(node, names, when, file)
        except TreeError:
            raise
        except _MISSHAPEN:
            raise unreadable(file, node, "a policy with such a statement cannot be imported") from None

    def _followed(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> _Returned | None:
        match node.type:
            case "return_statement":
                return self._return(node, names, when, file)
            case "expression_statement":
                self._value(node.named_children[0], names, when, file)
                return None
            case "short_var_declaration":
                for name, value in _pairs(node, file):
                    names[text_of(name)] = self._value(value, names, when, file)
                return None
            case "assignment_statement":
                for target, value in _pairs(node, file):
                    self._assign(target, value, names, when, file)
                return None
            case "if_statement":
                return self._if(node, names, when, file)
        raise unreadable(file, node, "a policy with such a statement cannot be imported")

    def _return(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> _Returned:
        values = node.named_children[0].named_children if node.named_children else []
        return _Returned(self._value(values[0], names, when, file) if values else None)

    def _assign(self, target: Node, value: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> None:
        """Below a gate only `list = append(list, …)` says what a list has without it."""
        if target.type == "identifier" and text_of(target) == "_":
            return
        new = self._value(value, names, when, file)
        if target.type == "selector_expression":
            owner = self._value(target.named_children[0], names, when, file)
            member = text_of(target.named_children[1])
            if isinstance(owner, _Binding) and member == "Name":
                owner.name = new
                return
            if isinstance(owner, dict):
                owner[member] = new
                return
        if target.type == "identifier":
            for scope in names.maps:
                if text_of(target) in scope:
                    appended = text_of(value).replace(" ", "").startswith(f"append({text_of(target)},")
                    if scope is not names.maps[0] and not appended:
                        break
                    scope[text_of(target)] = new
                    return
        raise unreadable(file, target, "a policy that assigns this cannot be imported")

    def _if(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> _Returned | None:
        condition, consequence = (node.child_by_field_name(name) for name in ("condition", "consequence"))
        alternative = node.child_by_field_name("alternative")
        if condition is None or consequence is None or node.child_by_field_name("initializer") is not None:
            raise unreadable(file, node, "a policy with such a statement cannot be imported")
        held = self._gates(condition, file)
        returned = self._block(consequence, names.new_child(), when | held, file)
        if alternative is not None and returned is None:
            if len(held) != 1 or alternative.type != "block":
                raise unreadable(file, alternative, "a policy with such a statement cannot be imported")
            opposite = frozenset((gate, not on) for gate, on in held)
            returned = self._block(alternative, names.new_child(), when | opposite, file)
        if returned is not None:
            raise unreadable(file, node, "a policy that returns below a gate cannot be imported")
        return None

    def _gates(self, condition: Node, file: GoFile) -> When:
        if condition.type == "unary_expression" and text_of(condition.children[0]) == "!":
            held = self._gates(condition.named_children[0], file)
            if len(held) == 1:
                return frozenset((gate, not on) for gate, on in held)
        if condition.type == "binary_expression" and text_of(condition.children[1]) == "&&":
            return self._gates(condition.named_children[0], file) | self._gates(
                condition.named_children[1], file
            )
        gate = asked_gate(condition)
        if gate is None:
            raise unreadable(file, condition, "a policy that depends on this cannot be imported")
        return frozenset({(Scope(self._tree, file).text(gate), True)})

    def _value(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> Any:
        match node.type:
            case "identifier" if text_of(node) in names:
                return names[text_of(node)]
            case "composite_literal" | "literal_value":
                return self._literal(node, names, when, file)
            case "call_expression":
                return self._call(node, names, when, file)
            case "unary_expression" if text_of(node.children[0]) == "&":
                return self._value(node.named_children[0], names, when, file)
            case "literal_element" | "parenthesized_expression":
                return self._value(node.named_children[0], names, when, file)
            case "binary_expression" if text_of(node.children[1]) == "+":
                left, right = (self._value(side, names, when, file) for side in node.named_children)
                return left + right
            case "selector_expression" if text_of(node.named_children[0]) in names:
                owner = names[text_of(node.named_children[0])]
                member = text_of(node.named_children[1])
                return owner.get(member, []) if isinstance(owner, dict) else getattr(owner, member.lower())
        value = Scope(self._tree, file).value(node)
        if isinstance(value, Literal):  # a variable of a package: its elements are always there
            return self._literal(value.node, ChainMap({}), _ALWAYS, value.scope.file)
        if not isinstance(value, str):
            raise unreadable(file, node, "this is nothing that a policy is made of")
        return value

    def _literal(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> Any:
        """A list of items, or a mapping of fields or keys."""
        literal = Scope(self._tree, file).literal(node)
        if not literal.type.startswith(("[]", "map[")) and any(key is not None for key, _ in literal.entries):
            return {
                text_of(key): self._value(value, names, when, file)
                for key, value in literal.entries
                if key is not None
            }
        if literal.type.startswith("map["):
            return {
                self._value(key, names, when, file): self._value(value, names, when, file)
                for key, value in literal.entries
                if key is not None
            }
        return [_Item(self._value(value, names, when, file), when) for value in literal.elements()]

    def _call(self, node: Node, names: ChainMap[str, Any], when: When, file: GoFile) -> Any:
        function, listed = (node.child_by_field_name(name) for name in ("function", "arguments"))
        if function is None or listed is None:
            raise unreadable(file, node, "this is nothing that a policy is made of")
        if function.type == "func_literal":
            return self._run(function.child_by_field_name("body"), names, when, file)
        called = text_of(function)
        if called in _LABELLED:
            return None
        if called.startswith("add"):
            return self._register(called, listed, names, when, file)
        arguments = list(self._arguments(listed, names, when, file))
        if called == "append":
            return [*arguments[0].value, *arguments[1:]]
        if function.type == "identifier":
            if arguments:
                raise unreadable(file, node, "a policy with such a call cannot be imported")
            declared, of = self._function(called)
            return self._run(declared.body, {}, when, of)
        return self._built(node, function, arguments, names, when, file)

    def _arguments(
        self, listed: Node, names: ChainMap[str, Any], when: When, file: GoFile
    ) -> Iterator[_Item]:
        """Elements of a list that is spread have its conditions and those of the call."""
        for node in listed.named_children:
            if node.type == "variadic_argument":
                for item in self._value(node.named_children[0], names, when, file):
                    yield _Item(item.value, item.when | when)
            elif node.type != "comment":
                yield _Item(self._value(node, names, when, file), when)

    def _register(
        self, called: str, listed: Node, names: ChainMap[str, Any], when: When, file: GoFile
    ) -> None:
        nodes = [node for node in listed.named_children if node.type != "comment"]
        value = _Item(self._value(nodes[-1], names, when, file), when)
        if called == "addControllerRole":
            self.controller_roles.append(value)
        elif called == "addNamespaceRole":
            self.namespace_roles.append((self._value(nodes[0], names, when, file), value))
        elif called == "addNamespaceRoleBinding":
            self.role_bindings.append((self._value(nodes[0], names, when, file), value))
        else:
            raise unreadable(file, listed, f"a policy that calls {called} cannot be imported")

    def _built(
        self,
        node: Node,
        function: Node,
        arguments: list[_Item],
        names: ChainMap[str, Any],
        when: When,
        file: GoFile,
    ) -> Any:
        """`NewRule(…).Groups(…).RuleOrDie()`, and the like for bindings."""
        owner, method = function.named_children[0], text_of(function.named_children[1])
        if method == "NewRule":
            return _Rule({"verbs": arguments})
        if method in ("NewClusterBinding", "NewRoleBinding"):
            return _Binding(arguments[0].value, arguments[0].value)
        built = self._value(owner, names, when, file) if owner.type == "call_expression" else None
        if method in _BUILT and built is not None:
            return built
        if isinstance(built, _Rule) and method in _RULE_FIELDS:
            built.lists[_RULE_FIELDS[method]] = [*built.lists.get(_RULE_FIELDS[method], ()), *arguments]
            return built
        if isinstance(built, _Binding) and method in _SUBJECTS:
            built.subjects += [{"kind": _SUBJECTS[method], "name": item.value} for item in arguments]
            return built
        if isinstance(built, _Binding) and method == "SAs":
            space = arguments[0].value
            built.subjects += [
                {"kind": "ServiceAccount", "namespace": space, "name": item.value} for item in arguments[1:]
            ]
            return built
        raise unreadable(file, node, "a policy with such a call cannot be imported")


def _pairs(node: Node, file: GoFile) -> list[tuple[Node, Node]]:
    pairs = assigned(node)
    if not pairs:
        raise unreadable(file, node, "a policy with such a statement cannot be imported")
    return pairs


def _role_row(item: _Item) -> Row:
    metadata: Mapping[str, Any] = item.value["ObjectMeta"]
    row: Row = {"name": metadata["Name"]}
    if "Labels" in metadata:
        row["labels"] = metadata["Labels"]
    if "AggregationRule" in item.value:
        selectors = item.value["AggregationRule"]["ClusterRoleSelectors"]
        row["aggregate"] = [{"matchLabels": selector.value["MatchLabels"]} for selector in selectors]
    if "Rules" in item.value:
        row["rules"] = [found for rule in item.value["Rules"] for found in _rule_rows(rule, item.when)]
    return row | _condition(item.when)


def _controller_row(item: _Item) -> Row:
    row = _role_row(item)
    return row | {"name": row["name"].removeprefix(_CONTROLLER)}


def _rule_rows(item: _Item, of_role: When) -> Iterator[Row]:
    """A rule whose lists depend on gates is one row for each state of these."""
    lists: dict[str, list[_Item]] = item.value.lists
    states = {gate for items in lists.values() for one in items for gate, _ in one.when - item.when}
    for held in product((False, True), repeat=len(states)):
        state = frozenset(zip(sorted(states), held, strict=True))
        row = {
            name: sorted(one.value for one in lists[name] if one.when - item.when <= state)
            for name in _RULE_FIELDS.values()
            if lists.get(name)
        }
        yield row | _condition((item.when - of_role) | state)


def _binding_row(item: _Item) -> Row:
    binding = item.value
    if isinstance(binding, dict):  # a literal, which has no subjects
        return {
            "name": binding["ObjectMeta"]["Name"],
            "role": binding["RoleRef"]["Name"],
            "subjects": [],
        } | _condition(item.when)
    row = {"name": binding.name, "role": binding.role, "subjects": binding.subjects}
    return row | _condition(item.when)


def _with_namespace(row: Row, namespace: str) -> Row:
    return {"name": row.pop("name"), "namespace": namespace, **row}


def _condition(when: When) -> Row:
    """`when` of a row: one period without ends, with gates that are on and gates that are off."""
    if not when:
        return {}
    period: dict[str, list[str]] = {}
    for name, wanted in (("gates", True), ("without", False)):
        gates = sorted(gate for gate, on in when if on is wanted)
        if gates:
            period[name] = gates
    return {"when": [period]}
