"""A cluster of 1.29+kep4381, with the kinds of the draft's examples."""

from classic_cluster import ClassicCluster

from kubeskew.apimachinery.client.refs import CUSTOM_RESOURCE_DEFINITIONS, Ref, parameters_refs

PREVIEW = "1.29+kep4381"
DRIVER = "cards.dra.example.com"
FINALIZER = "semantic.dra.k8s.io/delete-protection"
IN_TREE = {"apiGroup": "resource.k8s.io", "kind": "ResourceClaimParameters"}
VENDORS = {"apiGroup": "dra.example.com", "kind": "CardParameters"}
CARDS = Ref("dra.example.com", "v1alpha1", "cardparameters", True, "CardParameters")
SELECTOR = 'versions["API"] >= "v1.0.0" && labels.has("SupportsPowerSaving")'


def counter(name, count):
    return {"name": name, "counter": {"count": count}}


def required(name, amount):
    return {"name": name, "counter": {"required": amount}}


def selected(selector=SELECTOR, name="meta"):
    return {"name": name, "metadata": {"selector": selector}}


def metadata(version="v3.2.1", name="meta", **labels):
    listed = [{"name": key, "value": value} for key, value in labels.items()]
    found = {"versions": [{"name": "API", "version": version}], "labels": listed}
    return {"name": name, "metadata": {key: value for key, value in found.items() if value}}


def card(name="CardA", ram=10, units=4):
    """Returns the card of the draft's example, with fewer bytes."""
    meta = metadata(SupportsPowerSaving="", Color="Red")
    return {"id": name, "attributes": [meta, counter("RAM", ram), counter("ComputeUnits", units)]}


def definition(*versions, plural="cardparameters", kind="CardParameters", established=True):
    """Returns the definition of a vendor's parameters."""
    names = {"plural": plural, "kind": kind}
    served = [{"name": version, "served": True} for version in versions or ("v1alpha1",)]
    condition = {"type": "Established", "status": "True" if established else "False"}
    return {
        "metadata": {"name": f"{plural}.dra.example.com"},
        "spec": {"group": "dra.example.com", "names": names, "scope": "Namespaced", "versions": served},
        "status": {"acceptedNames": names, "conditions": [condition]},
    }


class SemanticCluster(ClassicCluster):
    """Class `cards` takes parameters of both kinds, unless it shall take others."""

    def __init__(self, *, hints=True):
        """With `hints` only events that may help wake a pod: so tests see that each one is judged well."""
        super().__init__(PREVIEW, SchedulerQueueingHints=hints)
        self.parameters_ref = parameters_refs(self.version)[1]

    async def card_class(self, *types, name="cards", **more):
        allowed = list(types or (IN_TREE, VENDORS))
        body = {"metadata": {"name": name}, "driverName": DRIVER, "parameterTypes": allowed, **more}
        return await self.client.create(self.refs.device_classes, body)

    async def cards(self, node="n0", *cards, name="", driver=DRIVER):
        body = {"nodeName": node, "driverName": driver, "resources": list(cards or (card(),))}
        body["metadata"] = {"name": name or f"{node}-{driver}"}
        return await self.client.create(self.refs.slices, body)

    async def publish(self, node="n0", *cards, name="", driver=DRIVER):
        """Replaces the resources of a slice."""
        published = await self.client.get(self.refs.slices, name or f"{node}-{driver}")
        return await self.client.update(self.refs.slices, {**published, "resources": [*cards]})

    async def asking(self, name="w", *parameters, shareable=False, **more):
        body = {"metadata": {"name": name}, "shareable": shareable, "parameters": [*parameters], **more}
        return await self.client.create(self.parameters_ref, body, "default")

    async def card_parameters(self, name="my-parameters", **spec):
        return await self.client.create(CARDS, {"metadata": {"name": name}, "spec": spec}, "default")

    async def translated(self, vendors, name="generated", *parameters):
        """Writes what the driver makes of a vendor's object."""
        about = vendors["metadata"]
        origin = {**VENDORS, "name": about["name"], "uid": about["uid"], "generation": about["generation"]}
        return await self.asking(name, *parameters, generatedFrom=origin)

    async def define(self, *versions, **more):
        return await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(*versions, **more))

    async def card_claim(self, name="c0", reference=None, *, mode="WaitForFirstConsumer", **metadata):
        spec = {"resourceClassName": "cards", "allocationMode": mode}
        spec |= {} if reference is None else {"parametersRef": reference}
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(self.refs.claims, body, "default")

    async def card_claims(self, *names, parameters="w"):
        for name in names:
            await self.card_claim(name, {**IN_TREE, "name": parameters})

    async def claim_named(self, name="c0"):
        return await self.client.get(self.refs.claims, name, "default")

    async def handle(self, name="c0"):
        """Returns the semantic data of the only handle of a claim."""
        allocation = ((await self.claim_named(name)).get("status") or {}).get("allocation")
        if allocation is None:
            return None
        (handle,) = allocation["resourceHandles"]
        assert handle["driverName"] == DRIVER
        return handle["semanticData"]

    async def taken(self, name="c0"):
        """Returns what a claim has: (resource, attribute, amount)."""
        found = (await self.handle(name) or {}).get("allocations") or ()
        counters = [each["counter"] for each in found]
        return [(each["resourceID"], each["name"], each["count"]) for each in counters]

    async def free(self, name="c0"):
        """Takes an allocation back, as the claim controller does."""
        await self.set_claim_status(name, allocation=None, reservedFor=None)


async def cluster_of(*nodes, hints=True):
    """Returns a cluster with a card at each node."""
    cluster = SemanticCluster(hints=hints)
    for node in nodes or ("n0",):
        await cluster.node(node)
        await cluster.cards(node)
    await cluster.card_class()
    return cluster
