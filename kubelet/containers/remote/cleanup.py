"""Ends what a node's pods still run in the machine's container runtime, once its cluster goes down."""

import json
from pathlib import Path

from kubeskew.kubelet.containers.remote.calls import RuntimeCalls
from kubeskew.kubelet.containers.remote.requests import NODE
from kubeskew.kubelet.containers.remote.runtime import PLACE, remove_sandboxes
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages


async def cleanup(directory: Path) -> None:
    """Removes the sandboxes of the node whose requests are in a directory, with their containers.

    Raises ContainerRuntimeError if the runtime cannot be asked, or refuses.
    """
    try:
        place = json.loads((directory / PLACE).read_text())
    except (OSError, ValueError):  # the node has never run anything
        return
    calls = RuntimeCalls(place["endpoint"])
    wanted = messages.PodSandboxFilter(label_selector={NODE: place["label"]})
    try:
        found = await calls.call("ListPodSandbox", messages.ListPodSandboxRequest(filter=wanted))
        await remove_sandboxes(calls, [each.id for each in found.items])
    except RpcError as error:
        raise ContainerRuntimeError(f"{place['endpoint']}: {error}") from error
    finally:
        await calls.close()
