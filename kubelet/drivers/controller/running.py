"""Runs the example driver's controller with informers of its own."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from kubeskew.apimachinery.client.informer_factory import InformerFactory
from kubeskew.apimachinery.client.refs import dra_refs, parameters_refs
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.kubelet.drivers.classic_services import has_semantic_parameters
from kubeskew.kubelet.drivers.controller.controller import DriverController
from kubeskew.kubelet.drivers.controller.example import ExampleDriver
from kubeskew.kubelet.drivers.controller_settings import ControllerSettings
from kubeskew.kubelet.drivers.semantic.generator import ParameterGenerator
from kubeskew.kubelet.drivers.semantic.parameters import parameters_ref

log = logging.getLogger(__name__)

_LAST_MINOR = 31  # whose library has controllers


async def run_controller(
    ctx: ComponentContext, name: str, settings: ControllerSettings, capacity: Callable[[], Mapping[str, int]]
) -> None:
    """Work until cancelled; `capacity` gives how many claims each node takes."""
    version, environment = ctx.options.emulated_version, ctx.environment
    if version.minor > _LAST_MINOR:
        log.warning("the driver library of %s has no controllers: claims are the scheduler's", version)
        return
    informers = InformerFactory(ctx.client, environment.clock, environment.entropy)
    driver = ExampleDriver(ctx.client, environment.entropy, version, name, settings, capacity)
    claims = informers.informer(dra_refs(version).claims)
    claims.add_handler(driver.learn, lambda _, claim: driver.learn(claim))
    controller = DriverController(ctx.client, environment.clock, informers, version, name, driver)
    log.info("allocating claims")
    await controller.run(asyncio.Event())


def generator_of(ctx: ComponentContext, name: str, parameters: tuple[str, str]) -> ParameterGenerator | None:
    """Returns what makes semantic parameters of objects of that group and kind; None in other releases."""
    version, environment = ctx.options.emulated_version, ctx.environment
    if not has_semantic_parameters(version):
        log.warning("the driver library of %s has no semantic parameters: nothing is generated", version)
        return None
    informers = InformerFactory(ctx.client, environment.clock, environment.entropy)
    target, vendor = parameters_refs(version)[1], parameters_ref(*parameters)
    log.info("generating parameters of %s", vendor.kind)
    return ParameterGenerator(ctx.client, environment.clock, informers, name, vendor, target)
