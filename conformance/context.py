"""The context of one running cell, in which results of operations are bound to names for later operations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubeskew.apimachinery.client.kubeconfig import KubeconfigError
from kubeskew.apimachinery.client.refs import NODES, PODS, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock, micro_timestamp
from kubeskew.conformance.assertion_trees import mismatches
from kubeskew.conformance.bindings import bind, evaluate
from kubeskew.conformance.chainsaw import expression
from kubeskew.conformance.control import ClusterControl
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.aspects import claim_names
from kubeskew.conformance.evidence.disturbances import PodSnapshot
from kubeskew.conformance.kinds import Kinds
from kubeskew.conformance.results import OperationResult, StepResult
from kubeskew.conformance.scenario import Operation, Step

Made = tuple[Ref, str, str]  # the namespace and name of something that was created
DEFAULT_TIMEOUTS = {"apply": 5.0, "assert": 30.0, "error": 30.0, "delete": 30.0, "exec": 30.0}


@dataclass(slots=True)
class CellContext:
    """The cluster, a client of it, the namespace of the scenario's objects, and the bindings of names."""

    control: ClusterControl
    client: APIClient
    kinds: Kinds
    clock: Clock
    namespace: str
    bindings: dict[str, Any]
    timeouts: Mapping[str, float]
    noted: dict[str, PodSnapshot] = field(default_factory=dict)  # pods by uid, before they could be disturbed
    present: set[str] = field(default_factory=set)  # the uids of those that were there at the last change
    step_began: str = ""  # as components write the time into their logs
    observations: dict[str, Any] = field(default_factory=dict)  # by name, for the report
    step: StepResult = field(default_factory=lambda: StepResult(""))  # the one that is being performed
    faults: dict[str, StepResult] = field(default_factory=dict)  # by id: the step that set it
    clients: dict[str, APIClient] = field(default_factory=dict)  # by context, besides the usual one
    kinds_through: dict[str, Kinds] = field(default_factory=dict)  # by context: servers may differ
    context: str = ""  # of the kubeconfig, by which `client` asks; empty: the current one
    is_chainsaw: bool = False  # a test without a header, which is run as Chainsaw runs it
    step_timeouts: Mapping[str, float] = field(default_factory=dict)  # of the step, before those of the test
    outcome: OperationResult | None = None  # of the operation that is being performed
    made: list[list[Made]] = field(default_factory=lambda: [[]])  # before the steps, and in each
    branches: dict[str, "CellContext"] = field(default_factory=dict)  # of a fork, by name
    compared: dict[str, list[str]] = field(default_factory=dict)  # by step, how the branches differed
    done: list[tuple[Step, StepResult]] = field(default_factory=list)  # the steps of the cell so far
    impossible: dict[str, str] = field(default_factory=dict)  # by name, why a real program left it unbound

    def of_branch(self, name: str, control: ClusterControl) -> "CellContext":
        """The branch begins with copies of all bindings and notes."""
        client = control.client()
        return CellContext(
            *(control, client, Kinds(client), self.clock, self.namespace, dict(self.bindings)),
            *(self.timeouts, dict(self.noted), set(self.present)),
            branches=self.branches,
            is_chainsaw=self.is_chainsaw,
            compared=self.compared,
            done=self.done,
            impossible=dict(self.impossible),
        )

    async def close(self) -> None:
        for each in (self.client, *self.clients.values()):
            await each.close()

    @property
    def field_validation(self) -> str:
        """Strict has the server refuse fields that it does not know."""
        return "Strict" if self.is_chainsaw else ""

    def timeout(self, operation: str) -> float:
        for timeouts in (self.step_timeouts, self.timeouts, DEFAULT_TIMEOUTS):
            if operation in timeouts:
                return timeouts[operation]
        return 30.0

    def show(self, text: str) -> None:
        """Adds a text to the report of the operation that is being performed."""
        if self.outcome is not None:
            self.outcome.shown = text

    def binding(self, values: Mapping[str, Any]) -> "CellContext":
        """Each value may use those before it; the bindings hold for one operation."""
        bindings = dict(self.bindings)
        for name, value in values.items():
            bindings[name] = bind(value, bindings)
        return replace(self, bindings=bindings)

    def through(self, context: str) -> "CellContext":
        if context not in self.clients:
            try:
                self.clients[context] = self.control.client(context)
            except KubeconfigError as error:
                raise ScenarioError(f"through {context}: {error}") from error
        client = self.clients[context]
        kinds = self.kinds_through.setdefault(context, Kinds(client))
        return replace(self, client=client, kinds=kinds, context=context)

    def as_user(self, user: Mapping[str, Any]) -> "CellContext":
        """The user is `{user, group, extra: {key: value}}`."""
        client = self.client.impersonating(user["user"], user.get("extra") or {}, user.get("group") or "")
        return replace(self, client=client)

    def begin_step(self, step: StepResult) -> None:
        self.step = step
        self.made.append([])
        self.step_began = micro_timestamp(self.clock.now())[: len("2026-01-01T00:00:00.000")]

    async def remember_pods(self) -> None:
        """Notes every pod with its claims and its node; the first note of a pod stays.

        While no API server answers, nothing can have changed that was not noted before.
        """
        try:
            listed = await self.client.list(PODS)
            nodes = {node["metadata"]["name"]: node for node in (await self.client.list(NODES))["items"]}
        except CONNECTION_ERRORS:
            return
        prepared, records = await self.control.prepared(), await self.control.node_records()
        revision = int(listed["metadata"]["resourceVersion"])
        self.present = {pod["metadata"]["uid"] for pod in listed["items"]}
        for pod in listed["items"]:
            node, namespace = (pod.get("spec") or {}).get("nodeName") or "", pod["metadata"]["namespace"]
            own = [
                claim
                for claim in prepared.get(node, ())
                if claim.namespace == namespace and claim.name in claim_names(pod)
            ]
            note = PodSnapshot(pod, nodes.get(node), own, revision, records)
            self.noted.setdefault(pod["metadata"]["uid"], note)


def bind_outputs(
    ctx: CellContext, operation: Operation, found: Any, results: Mapping[str, Any] | None = None
) -> None:
    """Binds `outputs: [{name, value: (expression)}]` for later steps; the expressions are of `found`.

    An output with a `match` binds only if `found` matches it. `results` are names that are bound here alone.
    """
    for output in operation.body.get("outputs") or []:
        bindings = {**ctx.bindings, **results} if results else ctx.bindings
        if output.get("match") and any(mismatches(output["match"], found, bindings)):
            continue
        text = expression(output["value"])
        ctx.bindings[output["name"]] = evaluate(text, bindings, found) if text else output["value"]
