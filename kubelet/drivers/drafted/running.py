"""Runs the parts of the example driver that KEP-3063's draft wants: controller, and the nodes' capacity."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from kubeskew.apimachinery.client.informer_factory import InformerFactory
from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.kubelet.drivers.controller_settings import ControllerSettings
from kubeskew.kubelet.drivers.drafted.capacity import CapacityPublisher
from kubeskew.kubelet.drivers.drafted.controller import DraftedController
from kubeskew.kubelet.drivers.drafted.pool import DevicePool

log = logging.getLogger(__name__)


async def run_drafted_controller(
    ctx: ComponentContext,
    name: str,
    settings: ControllerSettings,
    hardware: Callable[[], Mapping[str, Sequence[Object]]],
) -> None:
    """Works until cancelled; `hardware` gives the devices of each node, as they are now."""
    environment, pool = ctx.environment, DevicePool()

    def with_users() -> dict[str, list[Object]]:
        return {
            node: [{**device, "claims": pool.users_of(node, device["name"])} for device in devices]
            for node, devices in hardware().items()
        }

    informers = InformerFactory(ctx.client, environment.clock, environment.entropy)
    refs = dra_refs(ctx.options.emulated_version)
    controller = DraftedController(ctx.client, environment.clock, informers, refs, name, settings, pool)
    publisher = CapacityPublisher(ctx.client, environment.clock, name, with_users)
    log.info("allocating claims")
    await asyncio.gather(controller.run(asyncio.Event()), publisher.run())
