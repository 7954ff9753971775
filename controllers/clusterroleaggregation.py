"""The cluster role aggregation controller: combines cluster roles by their labels, as their aggregation rules
say.

Source: k8s.io/kubernetes/pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go, 1.36.
"""

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key

CLUSTER_ROLES = Ref("rbac.authorization.k8s.io", "v1", "clusterroles", False, "ClusterRole")
_MANAGER = "clusterrole-aggregation-controller"


class RoleAggregationController(Controller):
    name = "clusterrole-aggregation-controller"
    component = "clusterrole-aggregation-controller"
    queue_name = "ClusterRoleAggregator"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._roles = context.informer(CLUSTER_ROLES)
        self._roles.add_handler(
            lambda _: self._enqueue_all(), lambda _, __: self._enqueue_all(), lambda _: self._enqueue_all()
        )

    def _enqueue_all(self) -> None:
        for role in self._roles.list():
            if role.get("aggregationRule"):
                self.enqueue(role)

    async def sync(self, key: Key) -> None:
        role = self._roles.get("", key.name)
        if role is None or not role.get("aggregationRule"):
            return
        rules = self._gathered(role)
        if rules == (role.get("rules") or []):
            return
        wanted = {"metadata": {"name": key.name}, "rules": rules}
        await self.client.apply(CLUSTER_ROLES, wanted, field_manager=_MANAGER, force=True)

    def _gathered(self, role: Object) -> list[Object]:
        name, rules = role["metadata"]["name"], []
        roles = sorted(self._roles.list(), key=lambda one: str(one["metadata"]["name"]))
        for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
            wanted = LabelSelector.from_object(selector)
            for other in roles:
                metadata = other["metadata"]
                if metadata["name"] == name or not wanted.matches(metadata.get("labels")):
                    continue
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
        return rules
