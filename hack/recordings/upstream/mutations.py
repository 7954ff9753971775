"""Ask upstream's server and ours the same: what becomes of an object when one field of it changes.

    python -m hack.recordings.upstream.mutations REAL OURS OBJECTS.yaml [--update] [--messages] [--only TEXT]
        [--show N]

REAL and OURS are kubeconfigs. Each document of OBJECTS.yaml is sent, as a dry run, with one mutation at a
time: what it has is changed, nulled and left out, what REAL's OpenAPI knows besides is set to samples.
Answers are compared by code, reason and causes, objects by the fields REAL knows. Differences are printed
by kind.
"""

import argparse
import asyncio
import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from kubeskew.apimachinery.client.kubeconfig import load_kubeconfig

Place = tuple[str | int, ...]

NAMESPACE = "mutations"
AT_ONCE = 8
LEFT_OUT = object()
_TEXTS = ["", "Bad_Value!", "a" * 300, "x.y/z", "abc", "-1"]
_NUMBERS = [-1, 0, 1, 65536, 2**31]
_SAMPLES: Mapping[str, list[Any]] = {
    "IntOrString": [0, -1, "50%", "150%", "http"],
    "Quantity": ["1", "-1", "0", "1.5"],
    "Time": ["2020-01-01T00:00:00Z"],
    "MicroTime": ["2020-01-01T00:00:00.000000Z"],
}
# What the servers themselves decide, each its own way.
_OWN_METADATA = ("managedFields", "uid", "creationTimestamp", "resourceVersion", "selfLink", "generation")


@dataclass(frozen=True)
class Mutation:
    """A change: the value to put at a path; LEFT_OUT for nothing."""

    path: Place
    value: Any

    def __str__(self) -> str:
        value = "left out" if self.value is LEFT_OUT else json.dumps(self.value)[:120]
        return f"{'.'.join(map(str, self.path))} = {value}"

    def applied(self, to: Any) -> Any:
        changed = copy.deepcopy(to)
        at = changed
        for step in self.path[:-1]:
            at = at[step]
        if self.value is LEFT_OUT:
            del at[self.path[-1]]
        else:
            at[self.path[-1]] = copy.deepcopy(self.value)
        return changed


class Schemas:
    """The definitions of an OpenAPI v2 document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._definitions = document["definitions"]

    def of_kind(self, api_version: str, kind: str) -> Mapping[str, Any]:
        group, _, version = api_version.rpartition("/")
        wanted = {"group": group, "version": version, "kind": kind}
        for definition in self._definitions.values():
            if wanted in definition.get("x-kubernetes-group-version-kind", ()):
                return dict(definition)
        raise SystemExit(f"the real server knows no {api_version} {kind}")

    def resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._definitions[_name(schema)] if "$ref" in schema else schema

    def samples(self, schema: Mapping[str, Any], depth: int = 0) -> list[Any]:
        """Samples fit the types; there are good ones and bad."""
        special = _SAMPLES.get(_name(schema).rpartition(".")[2]) if "$ref" in schema else None
        schema = self.resolved(schema)
        match schema.get("type"):
            case _ if special:
                return special
            case "string":
                return ["YQ=="] if schema.get("format") == "byte" else _TEXTS
            case "integer" | "number":
                return list(_NUMBERS)
            case "boolean":
                return [True, False]
            case "array":
                return [[], *([sample] for sample in self.samples(schema["items"], depth))]
            case _:
                return [{}, *(self._of_object(schema, depth + 1) if depth < 2 else ())]

    def _of_object(self, schema: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        if "additionalProperties" in schema:
            values = self.samples(schema["additionalProperties"], depth)[:4]
            yield from ({key: value} for value in values for key in ("a", "Bad_Key!/x/"))
        for key, property_ in sorted(schema.get("properties", {}).items()):
            yield from ({key: value} for value in self.samples(property_, depth)[:3])
        required = {key: self.samples(schema["properties"][key], 2)[-1] for key in schema.get("required", ())}
        if required:
            yield required

    def mutations(self, value: Any, schema: Mapping[str, Any], path: Place = ()) -> Iterator[Mutation]:
        """Each mutation changes one place below `value`."""
        schema = self.resolved(schema)
        if isinstance(value, dict):
            yield from self._of_fields(value, schema, path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield Mutation((*path, index), LEFT_OUT)
                yield from self.mutations(item, schema.get("items", {}), (*path, index))
            yield from (Mutation(path, [*value, value[0]]) for _ in value[:1])
        else:
            samples = self.samples(schema) if "type" in schema else _TEXTS
            yield from (Mutation(path, sample) for sample in samples if sample != value)

    def _of_fields(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], path: Place
    ) -> Iterator[Mutation]:
        fields = schema.get("properties", {})
        for key, entry in value.items():
            if path or key not in ("apiVersion", "kind"):
                yield from (Mutation((*path, key), instead) for instead in (LEFT_OUT, None))
                below = fields.get(key) or schema.get("additionalProperties", {})
                yield from self.mutations(entry, below, (*path, key))
        for key, field in sorted(fields.items()):
            if key not in value and (path or key not in ("apiVersion", "kind", "metadata", "status")):
                yield from (Mutation((*path, key), sample) for sample in self.samples(field))

    def known(self, value: Any, schema: Mapping[str, Any]) -> Any:
        """Fields that this document does not have are left out."""
        schema = self.resolved(schema)
        if isinstance(value, dict) and "properties" in schema:
            fields = schema["properties"]
            return {key: self.known(entry, fields[key]) for key, entry in value.items() if key in fields}
        if isinstance(value, list):
            return [self.known(element, schema.get("items", {})) for element in value]
        return value


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


class Side:
    """One of the two servers, as a kubeconfig's user."""

    def __init__(self, session: aiohttp.ClientSession, kubeconfig: Path) -> None:
        config = load_kubeconfig(kubeconfig)
        self._session = session
        self._url, self._tls = config.server, config.ssl_context() or True
        self._headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        url = self._url + path
        async with self._session.request(
            method, url, json=body, headers=self._headers, ssl=self._tls
        ) as answer:
            return answer.status, await answer.json(content_type=None)

    async def collection(self, api_version: str, kind: str) -> str:
        """Path of the kind's objects."""
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        _, found = await self.ask("GET", root)
        resource = next(r for r in found["resources"] if r["kind"] == kind and "/" not in r["name"])
        return f"{root}{f'/namespaces/{NAMESPACE}' if resource['namespaced'] else ''}/{resource['name']}"

    async def prepare(self) -> None:
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        await self.ask("POST", accounts, {"metadata": {"name": "default"}})


@dataclass
class Comparison:
    """One object on both servers."""

    real: Side
    ours: Side
    schemas: Schemas
    messages: bool

    async def run(self, base: Mapping[str, Any], only: str, update: bool) -> dict[str, list[str]]:
        """Mutations that were answered differently, by the difference."""
        schema = self.schemas.of_kind(base["apiVersion"], base["kind"])
        collection = await self.real.collection(base["apiVersion"], base["kind"])
        bases = [await self._made(side, collection, base, update) for side in (self.real, self.ours)]
        name = base["metadata"]["name"]
        found: dict[str, list[str]] = {}
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(mutation: Mutation) -> None:
            method, path = ("PUT", f"{collection}/{name}") if update else ("POST", collection)
            answers = []
            async with turns:
                for side, base in zip((self.real, self.ours), bases, strict=True):
                    code, body = await side.ask(method, f"{path}?dryRun=All", mutation.applied(base))
                    answers.append(self._comparable(code, body, schema))
            difference = " | ".join(differences(*answers))
            if difference:
                found.setdefault(difference, []).append(str(mutation))

        chosen = (mutation for mutation in self.schemas.mutations(base, schema) if only in str(mutation))
        await asyncio.gather(*map(ask, chosen))
        return found

    async def _made(self, side: Side, collection: str, base: Mapping[str, Any], update: bool) -> Any:
        if not update:
            return base
        await side.ask("POST", collection, base)
        code, body = await side.ask("GET", f"{collection}/{base['metadata']['name']}")
        if code != 200:
            raise SystemExit(f"cannot make {base['kind']}: {body.get('message')}")
        del body["metadata"]["resourceVersion"]  # controllers may write it meanwhile
        return body

    def _comparable(self, code: int, body: Any, schema: Mapping[str, Any]) -> Any:
        if body.get("kind") == "Status":
            causes = (body.get("details") or {}).get("causes") or ()
            parts = ("reason", "field", "message") if self.messages else ("reason", "field")
            shown_causes = sorted([cause.get(part, "") for part in parts] for cause in causes)
            return {"code": code, "reason": body.get("reason"), "causes": shown_causes}
        found = self.schemas.known(body, schema)
        for key in _OWN_METADATA:
            found["metadata"].pop(key, None)
        return {"code": code, "object": found}


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Places where two values differ, as text."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted({*real, *ours}):
            yield from differences(real.get(key, LEFT_OUT), ours.get(key, LEFT_OUT), f"{path}.{key}")
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, pair in enumerate(zip(real, ours, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif real != ours:
        texts = ("nothing" if value is LEFT_OUT else json.dumps(value)[:200] for value in (real, ours))
        yield f"{path}: real {next(texts)}, ours {next(texts)}"


async def _main(arguments: argparse.Namespace) -> None:
    async with aiohttp.ClientSession() as session:
        real, ours = Side(session, arguments.real), Side(session, arguments.ours)
        for side in (real, ours):
            await side.prepare()
        schemas = Schemas((await real.ask("GET", "/openapi/v2"))[1])
        comparison = Comparison(real, ours, schemas, arguments.messages)
        for base in yaml.safe_load_all(arguments.objects.read_text()):
            found = await comparison.run(base, arguments.only, arguments.update)
            print(f"== {base['kind']} {base['metadata']['name']}: {len(found)} kinds of difference")
            for difference, mutations in found.items():
                print(f"-- {difference}", *mutations[: arguments.show], sep="\n     ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("real", type=Path)
    parser.add_argument("ours", type=Path)
    parser.add_argument("objects", type=Path)
    parser.add_argument("--update", action="store_true", help="make the object, and send changes of it")
    parser.add_argument("--messages", action="store_true", help="compare the texts of causes as well")
    parser.add_argument("--only", default="", help="mutations whose text has this in it")
    parser.add_argument("--show", type=int, default=3, help="how many mutations to print of a kind")
    asyncio.run(_main(parser.parse_args()))
