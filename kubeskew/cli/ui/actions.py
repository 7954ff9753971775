"""Actions of the page's buttons, by the functions that the commands of the same names call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import StateDir

Request = Mapping[str, Any]
Action = Callable[[Cluster, Request], Awaitable[str]]


async def upgrade(cluster: Cluster, request: Request) -> str:
    return await _move(cluster, request, downgrade=False)


async def downgrade(cluster: Cluster, request: Request) -> str:
    return await _move(cluster, request, downgrade=True)


async def _move(cluster: Cluster, request: Request, *, downgrade: bool) -> str:
    to, names = _version(_text(request, "to")), _names(request)
    await cluster.move(to, names, downgrade=downgrade, force=request.get("force") is True)
    return f"{', '.join(names) or 'every component'} at {to}"


async def kill(cluster: Cluster, request: Request) -> str:
    name = _text(request, "component")
    await cluster.kill(name)
    return f"{name} killed; it stays down until it is restarted"


async def restart(cluster: Cluster, request: Request) -> str:
    name = _text(request, "component")
    await cluster.restart(name)
    return f"{name} restarted"


async def fork(cluster: Cluster, request: Request) -> str:
    revision, target = request.get("at"), _directory(request)
    if not isinstance(revision, int) or isinstance(revision, bool) or revision < 1:
        raise UserError("name the revision to fork at")
    made = await cluster.fork(revision, target)
    return f"forked at revision {made.revision}; start it with `kubeskew --state-dir {target.path} up`"


ACTIONS: Mapping[str, Action] = {
    "upgrade": upgrade,
    "downgrade": downgrade,
    "kill": kill,
    "restart": restart,
    "fork": fork,
}


@dataclass(frozen=True, slots=True)
class Actions:
    """Runs actions on one cluster.

    `cluster` returns it for a progress callback; `parse` reads gates as the command line does.
    """

    cluster: Callable[[Callable[[str], None]], Cluster]
    parse: Callable[[str], Mapping[str, bool | None]]

    async def do(self, name: str, request: Request) -> dict[str, Any]:
        """The result is `{message, progress}`. Raises UserError and ClusterError as the command does."""
        actions = {**ACTIONS, "gates": self._gates}
        action = actions.get(name)
        if action is None:
            raise UserError(f"there is no action {name}; there are {', '.join(actions)}")
        progress: list[str] = []
        message = await action(self.cluster(progress.append), request)
        return {"message": message, "progress": progress}

    async def _gates(self, cluster: Cluster, request: Request) -> str:
        text, names = _text(request, "gates"), _names(request)
        await cluster.set_gates(self.parse(text), names)
        return f"{', '.join(names) or 'every component'} with {text}"


def _text(request: Request, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{name}: say which")
    return value.strip()


def _directory(request: Request) -> StateDir:
    return StateDir(Path(_text(request, "directory")).absolute())


def _names(request: Request) -> Sequence[str]:
    names = request.get("components") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError("components: expected a list of names")
    return names


def _version(text: str) -> Version:
    try:
        return Version.parse(text)
    except ValueError as error:
        raise UserError(f"to: {error}") from error
