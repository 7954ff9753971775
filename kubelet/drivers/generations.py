"""The generations of drivers by release of their library. Nothing else of a driver names the rooms of those
before today's.

To delete a room, delete its folder, its functions and its entries here, and its tests.
"""

import logging
from collections.abc import Awaitable, Callable

from kubeskew.apimachinery.features import FeatureTable, by_release, choose, preview
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.generation import ControllerParts, NodeParts, NodeServices
from kubeskew.kubelet.drivers.settings import DriverNode

log = logging.getLogger(__name__)

# -- services on a node


def services(node: NodeParts) -> NodeServices:
    from kubeskew.kubelet.drivers.kubelet_plugin import DriverServices

    return DriverServices(node)


def classic_services(node: NodeParts) -> NodeServices:
    from kubeskew.kubelet.drivers.classic.node import ClassicNode

    return ClassicNode(node)


def semantic_services(node: NodeParts) -> NodeServices:
    from kubeskew.kubelet.drivers.semantic.node import SemanticNode

    return SemanticNode(node)


def drafted_services(node: NodeParts) -> NodeServices:
    from kubeskew.kubelet.drivers.drafted.node import DraftedNode

    return DraftedNode(node)


# -- slices that kubelets publish for drivers


def no_slices(_driver: str, _node: DriverNode, _library: Version) -> list[Object]:
    return []


def named_slices(driver: str, node: DriverNode, library: Version) -> list[Object]:
    from kubeskew.kubelet.drivers.classic.named_resources import named_resources_of

    return named_resources_of(driver, node, library)


def semantic_slices(driver: str, node: DriverNode, library: Version) -> list[Object]:
    from kubeskew.kubelet.drivers.semantic.node_resources import semantic_resources_of

    resources = semantic_resources_of(driver, node, library)
    return [{"resources": resources}] if resources else []


# -- controllers


async def no_controller(parts: ControllerParts) -> None:
    version = parts.ctx.options.emulated_version
    if parts.settings.parameters is not None:
        log.warning("the driver library of %s has no semantic parameters: nothing is generated", version)
    else:
        log.warning("the driver library of %s has no controllers: claims are the scheduler's", version)


async def classic_controller(parts: ControllerParts) -> None:
    from kubeskew.kubelet.drivers.classic.controller.example import run_controller

    if parts.settings.parameters is not None:
        await no_controller(parts)
    else:
        await run_controller(parts)


async def semantic_controller(parts: ControllerParts) -> None:
    from kubeskew.kubelet.drivers.semantic.generator import run_generator

    if parts.settings.parameters is not None:
        await run_generator(parts, parts.settings.parameters)
    else:
        await classic_controller(parts)


async def drafted_controller(parts: ControllerParts) -> None:
    from kubeskew.kubelet.drivers.drafted.controller import run_drafted_controller

    await run_drafted_controller(parts)


class DriverGenerations(FeatureTable):
    services: Callable[[NodeParts], NodeServices] = choose(
        preview("kep3063"),
        drafted_services,
        choose(preview("kep4381"), semantic_services, by_release({0: classic_services, 31: services})),
    )
    # The bodies of the slices that a node's kubelet publishes; None where drivers publish them.
    kubelet_slices: Callable[[str, DriverNode, Version], list[Object]] | None = choose(
        preview("kep4381"), semantic_slices, by_release({0: no_slices, 30: named_slices, 31: None})
    )
    control: Callable[[ControllerParts], Awaitable[None]] = choose(
        preview("kep3063"),
        drafted_controller,
        choose(
            preview("kep4381"), semantic_controller, by_release({0: classic_controller, 32: no_controller})
        ),
    )


def generations_of(library: Version) -> DriverGenerations:
    return DriverGenerations.of(FeatureGates(library))
