"""Follows objects by informers, and reports changes to the scheduling queue."""

from collections.abc import Callable

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.queue import SchedulingQueue


def follow(
    factory: InformerFactory, ref: Ref, changed: Callable[[Object], None], removed: Callable[[Object], None]
) -> None:
    """`changed` receives new and changed objects, `removed` those that are gone."""
    factory.informer(ref).add_handler(changed, lambda _, new: changed(new), removed)


def follow_classes(
    factory: InformerFactory, ref: Ref, classes: dict[str, Object], queue: SchedulingQueue
) -> None:
    moved = moves(queue, EventResource.RESOURCE_CLASS)

    def changed(new: Object) -> None:
        old = classes.get(new["metadata"]["name"])
        classes[new["metadata"]["name"]] = new
        moved(old, new)

    def removed(old: Object) -> None:
        classes.pop(old["metadata"]["name"], None)

    follow(factory, ref, changed, removed)


def moves(queue: SchedulingQueue, resource: EventResource) -> Callable[[Object | None, Object], None]:
    """Makes a handler that reports new and changed objects of the kind to the queue."""

    def moved(old: Object | None, new: Object) -> None:
        action = Action.ADD if old is None else Action.UPDATE
        queue.move_all_to_active_or_backoff_queue(ClusterEvent(resource, action), old, new)

    return moved
