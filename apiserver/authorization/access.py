"""Puts the authorizers of one server together."""

from kubeskew.apimachinery.environment import Environment
from kubeskew.apiserver.authorization.announcers import AnnouncerAuthorizer
from kubeskew.apiserver.authorization.bindings import Bindings
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.apiserver.authorization.graph import Graph
from kubeskew.apiserver.authorization.node import NodeAuthorizer
from kubeskew.apiserver.authorization.rbac import RBACAuthorizer
from kubeskew.apiserver.authorization.rules import Rule
from kubeskew.apiserver.authorization.union import UnionAuthorizer
from kubeskew.apiserver.features import features_of
from kubeskew.apiserver.storage.interfaces import Store


class Access(UnionAuthorizer):
    """Holds the authorizers of --authorization-mode=Node,RBAC. `rbac` also tells which rules
    somebody holds.
    """

    def __init__(self, store: Store, environment: Environment) -> None:
        rules = map(Rule.of, DefaultRoles(environment.version, environment.gates).rules_of("system:node"))
        self.rbac = RBACAuthorizer(Bindings(store))
        node = NodeAuthorizer(Graph(store), features_of(environment.gates).accounts, tuple(rules))
        super().__init__([node, self.rbac, AnnouncerAuthorizer()])
