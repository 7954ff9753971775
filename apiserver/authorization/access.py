"""The authorizers of one server, put together."""

from apimachinery.component import World
from apiserver.authorization.announcers import AnnouncerAuthorizer
from apiserver.authorization.bindings import Bindings
from apiserver.authorization.default_roles import DefaultRoles
from apiserver.authorization.graph import Graph
from apiserver.authorization.node import NodeAuthorizer
from apiserver.authorization.rbac import RBACAuthorizer
from apiserver.authorization.rules import Rule
from apiserver.authorization.union import UnionAuthorizer
from apiserver.storage.interfaces import Store


class Access(UnionAuthorizer):
    """As with --authorization-mode=Node,RBAC. `rbac` also tells which rules somebody holds."""

    def __init__(self, store: Store, world: World) -> None:
        rules = map(Rule.of, DefaultRoles(world.version, world.gates).rules_of("system:node"))
        self.rbac = RBACAuthorizer(Bindings(store))
        node = NodeAuthorizer(Graph(store), world.gates, tuple(rules))
        super().__init__([node, self.rbac, AnnouncerAuthorizer()])
