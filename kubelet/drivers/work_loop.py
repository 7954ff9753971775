"""Runs the loop that a driver's controllers have in common: informers fill a queue, workers empty it."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.workqueue import WorkQueue

Item = TypeVar("Item", bound=Hashable)


async def run_workers(
    name: str,
    stop: asyncio.Event,
    informers: InformerFactory,
    queue: WorkQueue[Item],
    recorder: EventRecorder,
    process: Callable[[Item], Awaitable[None]],
    workers: int = 1,
) -> None:
    """Processes what is queued until `stop` is set, and ends all parts; what is being done is finished."""

    async def work() -> None:
        await informers.synced()
        await queue.work(process)

    informers.start()
    tasks = [asyncio.create_task(work(), name=f"{name} {number}") for number in range(workers)]
    try:
        await stop.wait()
    finally:
        queue.shut_down()
        await asyncio.gather(*tasks, return_exceptions=True)
        await recorder.close()
        await informers.stop()
