"""Definitions of custom resources for tests, and what makes and watches them."""

import asyncio
from contextlib import aclosing
from typing import Any

from server_in_process import Caller

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "test.example.com"


def version(name: str = "v1", *, storage: bool = True, fields: str = "size", **more: Any) -> dict[str, Any]:
    """Returns a version of a definition, whose spec has these fields, all of them texts."""
    properties = {one: {"type": "string"} for one in fields.split()}
    spec = {"type": "object", "description": "What is wanted.", "properties": properties}
    other = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "other": other}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def definition(plural: str, *versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Returns a definition of a resource in the tests' group."""
    names = {"plural": plural, "kind": plural.capitalize()[:-1]} | spec.pop("names", {})
    body = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions or (version(),)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": body | spec,
    }


def path(plural: str, served: str = "v1") -> str:
    """Returns where the objects of a resource are."""
    return f"/apis/{GROUP}/{served}/namespaces/default/{plural}"


def thing(name: str, served: str = "v1", kind: str = "Foo", **spec: Any) -> dict[str, Any]:
    """Returns an object of a kind, with a spec."""
    metadata = {"name": name}
    return {"apiVersion": f"{GROUP}/{served}", "kind": kind, "metadata": metadata, "spec": spec}


async def until(
    api: Caller, plural: str, kind: str, status: str = "True", group: str = GROUP
) -> dict[str, Any]:
    """Returns the definition's status once it has a condition."""
    async with asyncio.timeout(30), aclosing(api.watch(only(plural, group))) as events:
        async for _, obj in events:
            found = obj.get("status") or {}
            conditions = {condition["type"]: condition for condition in found.get("conditions") or ()}
            if conditions.get(kind, {}).get("status") == status:
                return {**found, "conditions": conditions}
    raise AssertionError("the watch has ended")


def only(plural: str, group: str = GROUP) -> str:
    """Returns what watches one definition alone."""
    return f"{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{plural}.{group}"


async def deleted(api: Caller, target: str) -> None:
    """Returns once something that is watched there is deleted."""
    async with asyncio.timeout(30), aclosing(api.watch(target)) as events:
        async for kind, _ in events:
            if kind == "DELETED":
                return
    raise AssertionError(f"the watch of {target} ended before anything was deleted")


async def applied(api: Caller, obj: dict[str, Any]) -> Any:
    """Returns the answer to a server-side apply."""
    target = f"{path('foos')}/{obj['metadata']['name']}?fieldManager=me"
    return await api.patch(target, obj, "apply")


async def define(api: Caller, plural: str, *versions: dict[str, Any], **spec: Any) -> None:
    """Makes a definition, and returns once it is established."""
    made = await api.post(DEFINITIONS, definition(plural, *versions, **spec))
    assert made.status == 201, made.raw
    await until(api, plural, "Established")
