"""A cluster whose scheduler and claims are those of KEP-3063's draft."""

from classic_cluster import on
from scheduling_cluster import Cluster


class DraftedCluster(Cluster):
    """Claims are of the class `gpu`; the test plays their driver."""

    def __init__(self, **options):
        super().__init__("1.25+kep3063", **options)

    async def claim(self, name="c0", mode="Delayed", *, status=None, **metadata):
        body = {
            "metadata": {"name": name, **metadata},
            "spec": {"resourceClassName": "gpu", "allocationMode": mode},
            "status": {"phase": "Pending", "userLimit": 1, **(status or {})},
        }
        return await self.client.create(self.refs.claims, body, "default")

    async def read_claim(self, name="c0"):
        return await self.client.get(self.refs.claims, name, "default")

    async def claiming_pod(self, *claims, name="p0", **more):
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        return await self.pod(name, resourceClaims=entries, **more)

    async def until_claim(self, check, name="c0"):
        """Returns the claim, once it is as `check` wants it."""
        version = self.server.revision
        claim = await self.read_claim(name)
        if check(claim):
            return claim
        async for _, claim in self.client.watch(self.refs.claims, "default", resource_version=str(version)):
            if claim["metadata"]["name"] == name and check(claim):
                return claim
        return None

    async def selected(self, node=None, name="c0"):
        """Returns what the scheduler says of the claim, once a node (or this one) is selected."""
        claim = await self.until_claim(
            lambda claim: (
                node in (scheduler_of(claim).get("selectedNode"), None)
                and scheduler_of(claim).get("selectedNode")
            ),
            name,
        )
        return scheduler_of(claim)

    async def say_as_driver(self, name="c0", **driver):
        """Say as the driver what holds for the claim while it is pending."""
        claim = await self.read_claim(name)
        scheduling = {**(claim["status"].get("scheduling") or {}), "driver": driver}
        await self.set_claim_status(name, scheduling=scheduling)

    async def allocate(self, name="c0", *nodes, **status):
        scheduling = {"driver": {"availableOnNodes": on(*nodes)}} if nodes else None
        await self.set_claim_status(
            name, phase="Allocated", driverName="gpu.example.com", scheduling=scheduling, **status
        )

    async def users(self, name="c0"):
        return [user["name"] for user in (await self.read_claim(name))["status"].get("reservedFor") or ()]

    def writes(self, name="c0"):
        """Returns how often the scheduler and the test have written the claim."""
        return sum(
            request.method in ("PUT", "PATCH") and f"/resourceclaims/{name}" in request.target
            for request in self.server.requests
        )


def scheduler_of(claim):
    return (claim["status"].get("scheduling") or {}).get("scheduler") or {}
