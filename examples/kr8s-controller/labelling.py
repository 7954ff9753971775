"""A controller with kr8s: each Pod of a namespace gets the version of its node's kubelet as a label."""

import asyncio
import sys

import kr8s
from kr8s.asyncio.objects import Node

LABEL = "example.com/kubelet"


async def label(api, pod):
    """Labels a pod that has a node, unless it is labelled rightly."""
    if not pod.spec.get("nodeName"):
        return
    node = await Node.get(pod.spec.nodeName, api=api)
    version = node.status.nodeInfo.kubeletVersion
    if pod.labels.get(LABEL) != version:
        await pod.label({LABEL: version})


async def label_all(api, namespace):
    """Labels all pods there are."""
    async for pod in api.get("pods", namespace=namespace):
        await label(api, pod)


async def follow(kubeconfig, namespace):
    """Labels pods as they come and as nodes change, until it is cancelled."""
    api = await kr8s.asyncio.api(kubeconfig=kubeconfig, namespace=namespace)

    async def pods():
        async for _, pod in api.watch("pods", namespace=namespace):
            await label(api, pod)

    async def nodes():
        async for _ in api.watch("nodes"):
            await label_all(api, namespace)

    await asyncio.gather(_again(pods), _again(nodes))


async def _again(work):
    """Repeats what ends or fails: an API server that restarts ends every watch."""
    while True:
        try:
            await work()
        except Exception as error:
            print("once more:", error, file=sys.stderr)
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(follow(*sys.argv[1:]))
