"""A cluster of a classic release, and a driver that a test plays by hand."""

import asyncio

from scheduling_cluster import Cluster

from kubeskew.apimachinery.client.refs import parameters_refs, scheduling_context_ref
from kubeskew.apimachinery.errors import StatusError

DRIVER = "gpu.example.com"
MINORS = ["1.26", "1.27", "1.28", "1.29", "1.30", "1.31"]


def gates(version, **more):
    extra = {"DRAControlPlaneController": True} if version == "1.31" else {}
    return {"DynamicResourceAllocation": True, **extra, **more}


def entries(version, *names):
    """Returns the entries of a pod's spec for claims; of the names of claims and entries alike."""
    sources = [{"resourceClaimName": name} for name in names]
    if version != "1.31":
        sources = [{"source": source} for source in sources]
    return [{"name": name, **source} for name, source in zip(names, sources, strict=True)]


def on(*nodes):
    """Returns a selector of nodes by name."""
    values = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*nodes]}
    return {"nodeSelectorTerms": [{"matchExpressions": [values]}]}


class ClassicCluster(Cluster):
    """Claims are of the class `gpu`; their shape is the release's."""

    def __init__(self, version, *, settings=None, **more):
        super().__init__(version, settings=settings, **gates(version, **more))
        self.text = version
        self.contexts = scheduling_context_ref(self.version)

    async def resource_class(self, name="gpu", *, suitable=None, **more):
        if self.text == "1.31":
            body = {"spec": {"suitableNodes": suitable} if suitable else {}}
        else:
            body = {"driverName": DRIVER, **({"suitableNodes": suitable} if suitable else {}), **more}
        return await self.client.create(self.refs.device_classes, {"metadata": {"name": name}, **body})

    async def driver_claim(self, name="c0", *, mode="WaitForFirstConsumer", status=None, **metadata):
        if self.text == "1.31":
            spec = {"controller": DRIVER, "devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
        else:
            spec = {"resourceClassName": "gpu", "allocationMode": mode}
        body = {
            "metadata": {"name": name, **metadata},
            "spec": spec,
            **({"status": status} if status else {}),
        }
        return await self.client.create(self.refs.claims, body, "default")

    async def claiming_pod(self, *claims, name="p0", **more):
        return await self.pod(name, resourceClaims=entries(self.text, *claims), **more)

    def allocation(self, *nodes, shareable=True):
        """Returns an allocation as a driver makes it, for some nodes or for all."""
        if self.text == "1.31":
            return {"controller": DRIVER, **({"nodeSelector": on(*nodes)} if nodes else {})}
        return {"shareable": shareable, **({"availableOnNodes": on(*nodes)} if nodes else {})}

    async def allocate(self, name="c0", *nodes, **status):
        driver = {} if self.text == "1.31" else {"driverName": DRIVER}
        await self.set_claim_status(name, allocation=self.allocation(*nodes), **driver, **status)

    async def context(self, name="p0", *, check=lambda context: True):
        """Returns the context of a pod, once it is as `check` wants it."""
        for _ in range(200):
            try:
                context = await self.client.get(self.contexts, name, "default")
                if check(context):
                    return context
            except StatusError as error:
                if error.code != 404:
                    raise
            await asyncio.sleep(0.05)
        raise AssertionError("no such context")

    async def answer(self, name="p0", /, **unsuitable):
        """Say as the driver which nodes do not suit which claim."""
        context = await self.context(name)
        statuses = [{"name": claim, "unsuitableNodes": nodes} for claim, nodes in unsuitable.items()]
        await self.client.update(self.contexts, {**context, "status": {"resourceClaims": statuses}}, "status")

    async def selected(self, node, name="p0"):
        return await self.context(name, check=lambda found: found["spec"].get("selectedNode") == node)

    async def has_context(self, name="p0"):
        items = (await self.client.list(self.contexts, "default"))["items"]
        return any(context["metadata"]["name"] == name for context in items)

    async def parameters(self, kind, name, **body):
        of_classes, of_claims = parameters_refs(self.version)
        ref = of_classes if kind == "class" else of_claims
        return await self.client.create(ref, {"metadata": {"name": name}, **body}, "default")

    async def instances(self, node, *instances, driver=DRIVER):
        """Create a slice of named resources; an instance is a name or a mapping."""
        listed = [{"name": instance} if isinstance(instance, str) else instance for instance in instances]
        body = {
            "metadata": {"name": f"{node}-{driver}"},
            "nodeName": node,
            "driverName": driver,
            "namedResources": {"instances": listed},
        }
        return await self.client.create(self.refs.slices, body)
