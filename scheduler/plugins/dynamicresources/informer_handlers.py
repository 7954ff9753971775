"""Follows objects by informers, and tells the scheduling queue what changed."""

from collections.abc import Callable

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.queue import SchedulingQueue


def follow(
    factory: InformerFactory, ref: Ref, changed: Callable[[Object], None], removed: Callable[[Object], None]
) -> None:
    """Calls `changed` with new and changed objects, `removed` with those that are gone."""
    factory.informer(ref).add_handler(changed, lambda _, new: changed(new), removed)


def follow_classes(
    factory: InformerFactory, ref: Ref, classes: dict[str, Object], queue: SchedulingQueue
) -> None:
    """Keeps the classes current, by name, and wakes the pods that wait for one."""
    moved = moves(queue, EventResource.RESOURCE_CLASS)

    def changed(new: Object) -> None:
        old = classes.get(new["metadata"]["name"])
        classes[new["metadata"]["name"]] = new
        moved(old, new)

    def removed(old: Object) -> None:
        classes.pop(old["metadata"]["name"], None)

    follow(factory, ref, changed, removed)


def moves(queue: SchedulingQueue, resource: EventResource) -> Callable[[Object | None, Object], None]:
    """Returns what tells the queue of a new or changed object of the kind."""

    def moved(old: Object | None, new: Object) -> None:
        action = Action.ADD if old is None else Action.UPDATE
        queue.move_all_to_active_or_backoff_queue(ClusterEvent(resource, action), old, new)

    return moved
