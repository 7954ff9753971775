"""The names of work queues in metrics."""

import pytest

from kubeskew.controllers.devicetaints.controller import DeviceTaintEvictionController
from kubeskew.controllers.framework.base import Controller
from kubeskew.controllers.nodelifecycle.health import NodeLifecycleController
from kubeskew.controllers.serviceaccount.tokens import AccountTokensController
from kubeskew.controllers.storageversionmigration.controller import StorageVersionMigrationController


@pytest.mark.parametrize(
    ("controller", "name"),
    [
        (AccountTokensController, "serviceaccount_tokens_service"),
        (NodeLifecycleController, "node_lifecycle_controller"),
        (DeviceTaintEvictionController, "device-taint-eviction-controller"),
        (StorageVersionMigrationController, "storage-version-migrator-controller"),
    ],
)
def test_names_that_do_not_follow_from_the_controllers(controller: type[Controller], name: str) -> None:
    """Some queues are called otherwise than their controllers (pkg/controller, 1.31 to 1.36)."""
    assert controller.queue_name == name
