"""SQL of the event store: sessions of a database, all statements by name, conversion of rows and values.

Written in SQLAlchemy Core and compiled once per dialect; the name goes into errors. The pieces that are not
portable come with the `Dialect`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
import sqlalchemy.engine

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.projection import is_intact
from kubeskew.apiserver.storage.records import DAMAGED, Author, ComponentEvent, Entry, Event, Key, Verb
from kubeskew.migrations.tables import events, meta, objects, timeline

T = TypeVar("T")
Row = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_TIMELINE = ("revision", "component", "what", "version", "gates", "time", "detail")


class Session(Protocol):
    """A session is one transaction. Its methods return when the database has answered, without `await`:
    callers are on a thread or in a greenlet.
    """

    def all(self, name: str, /, **values: object) -> list[Any]: ...

    def many(self, name: str, rows: Sequence[Row]) -> None:
        """`rows` have their values in the order of the statement's placeholders."""
        ...

    def insert(self, name: str, rows: Sequence[Row]) -> None:
        """`rows` have their values in the order of the statement's placeholders."""
        ...

    def run(self, name: str, /, **values: object) -> int:
        """Counts the changed rows."""
        ...


class Database(Protocol):
    """Refusals of the database are StorageErrors."""

    @property
    def place(self) -> str:
        """Messages name the database by it: it has no password."""
        ...

    @property
    def shared(self) -> bool:
        """True if another process can write to the database."""
        ...

    @property
    def there(self) -> bool:
        """False once the database is not the one any more that was opened."""
        ...

    async def write(self, work: Callable[[Session], T]) -> T:
        """Runs `work` in a transaction that no other writer's overlaps, and commits it."""
        ...

    async def read(self, work: Callable[[Session], T]) -> T:
        """Runs `work` on one snapshot."""
        ...

    async def newest(self) -> int | None:
        """Any process may have committed it before the call; None if `events` is empty, or if it takes long
        to find out.
        """
        ...

    def committed(self) -> int:
        """At least this revision has been committed by now; 0 if that is not known."""
        ...

    def note(self, revision: int) -> None:
        """Called after each commit."""
        ...

    async def wait_for_others(self, clock: Clock) -> None: ...

    async def close(self) -> None:
        """Closes all connections; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """`parameters` are the placeholders in order, `constants` the values that the SQL came with."""

    name: str
    sql: str
    parameters: tuple[str, ...]
    constants: Mapping[str, object]
    repeated: dict[int, str] = field(default_factory=dict)  # an insert's SQL by its number of rows

    def bind(self, values: Mapping[str, object]) -> tuple[object, ...]:
        return tuple(values[name] if name in values else self.constants[name] for name in self.parameters)

    def inserting(self, rows: int) -> str:
        """Repeats the values of an insert of one row, `rows` times."""
        found = self.repeated.get(rows)
        if found is None:
            one = f"({', '.join('?' * len(self.parameters))})"
            head, _, tail = self.sql.partition(f"VALUES {one}")
            found = self.repeated[rows] = f"{head}VALUES {', '.join([one] * rows)}{tail}"
        return found


@dataclass(frozen=True, slots=True)
class Dialect:
    """Databases differ in SQLAlchemy's compiler, and in the SQL that is not portable.

    `asked` is the list of keys, one JSON parameter `keys`, as a table; `place` is the place of a key in it,
    from 0, and `parts` are its resource, namespace and name.


    """

    compiler: sqlalchemy.engine.Dialect
    upsert: Callable[[sa.Table], Any]  # an insert that can update existing rows
    asked: sa.FromClause
    place: sa.ColumnElement[Any]
    parts: Sequence[sa.ColumnElement[Any]]


_before = events.alias("before")
_event_columns = (events, _before.c.value)
EVENT_COLUMNS = len(events.c)
_event_source = events.outerjoin(
    _before, sa.and_(_before.c.revision == events.c.previous, events.c.verb != Verb.CREATE.value)
)


def _events_after(*, filtered: bool) -> sa.Select[Any]:
    found = (
        sa.select(*_event_columns)
        .select_from(_event_source)
        .where(events.c.revision > sa.bindparam("revision"), events.c.revision <= sa.bindparam("until"))
        .order_by(events.c.revision)
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )
    # The concatenation keeps the planner off the resource's index, which would read its whole history.
    wanted = events.c.resource.concat("") == sa.bindparam("resource")
    return found.where(wanted) if filtered else found


def _entries_at(*, namespaced: bool) -> sa.Select[Any]:
    newest = sa.select(sa.func.max(events.c.revision).label("revision")).where(
        events.c.resource == sa.bindparam("resource"), events.c.revision <= sa.bindparam("revision")
    )
    if namespaced:
        newest = newest.where(events.c.namespace == sa.bindparam("namespace"))
    latest = newest.group_by(events.c.resource, events.c.namespace, events.c.name).subquery("latest")
    return (
        sa.select(events)
        .join(latest, events.c.revision == latest.c.revision)
        .where(events.c.verb != Verb.DELETE.value)
    )


def _history() -> sa.Select[Any]:
    return (
        sa.select(*_event_columns)
        .select_from(_event_source)
        .where(
            events.c.resource == sa.bindparam("resource"),
            events.c.namespace == sa.bindparam("namespace"),
            events.c.name == sa.bindparam("name"),
        )
        .order_by(events.c.revision)
    )


def _states(dialect: Dialect) -> sa.Select[Any]:
    """Selects per asked key its place in the list, the current object, and the last event, even a deletion.

    An event that is not a deletion comes as a negative number if there is no object: there should be one.

    """
    names = ("resource", "namespace", "name")
    here = sa.and_(*(objects.c[name] == part for name, part in zip(names, dialect.parts, strict=True)))
    signed = sa.case((events.c.verb == Verb.DELETE.value, events.c.revision), else_=-events.c.revision)
    last = (
        sa.select(signed)
        .where(*(events.c[name] == part for name, part in zip(names, dialect.parts, strict=True)))
        .order_by(events.c.previous.desc())
        .limit(sa.literal_column("1"))
        .scalar_subquery()
        .correlate(dialect.asked)
    )
    columns = (objects.c.uid, objects.c.revision, objects.c.created, objects.c.value)
    return sa.select(
        dialect.place, *columns, sa.case((objects.c.revision.is_(None), last), else_=objects.c.revision)
    ).select_from(dialect.asked.outerjoin(objects, here))


def _superseded() -> sa.Delete:
    """Deletes the events that those in (`since`, `until`] end: states before them, and deletions."""
    newest = sa.select(sa.func.max(events.c.revision)).scalar_subquery()
    later = events.alias("later")
    ended = sa.select(later.c.previous).where(
        later.c.revision > sa.bindparam("since"), later.c.revision <= sa.bindparam("until")
    )
    deletion = sa.and_(
        events.c.verb == Verb.DELETE.value,
        events.c.revision >= sa.bindparam("since"),  # the last compaction may have had to leave one
        events.c.revision <= sa.bindparam("until"),
    )
    # The newest event always stays: the next revision is counted from it.
    return sa.delete(events).where(sa.or_(events.c.revision.in_(ended), deletion), events.c.revision < newest)


def _put_object(dialect: Dialect) -> Any:
    put = dialect.upsert(objects)
    changed = {name: put.excluded[name] for name in ("uid", "revision", "created", "value")}
    return put.on_conflict_do_update(index_elements=list(objects.primary_key), set_=changed)


def _put_meta(dialect: Dialect) -> Any:
    put = dialect.upsert(meta)
    return put.on_conflict_do_update(index_elements=[meta.c.name], set_={"value": put.excluded.value})


def _remove_object() -> sa.Delete:
    return sa.delete(objects).where(
        *(column == sa.bindparam(column.name) for column in objects.primary_key.columns)
    )


NAMED: Mapping[str, sa.ClauseElement] = {
    "revision": sa.select(sa.func.max(events.c.revision)),
    "newest": sa.select(events.c.revision, events.c.digest).order_by(events.c.revision.desc()).limit(1),
    "count": sa.select(sa.func.count()).select_from(events),
    "all_events": sa.select(events)
    .where(events.c.revision > sa.bindparam("revision"))
    .order_by(events.c.revision)
    .limit(sa.bindparam("limit", type_=sa.Integer)),
    "one_event": sa.select(events).where(events.c.revision == sa.bindparam("revision")),
    "meta": sa.select(meta.c.name, meta.c.value),
    "insert_event": sa.insert(events),
    "remove_object": _remove_object(),
    "after": _events_after(filtered=False),
    "after_of": _events_after(filtered=True),
    "history": _history(),
    "resources": sa.select(events.c.resource).distinct().order_by(events.c.resource),
    "entries": sa.select(objects),
    "at": _entries_at(namespaced=False),
    "at_in": _entries_at(namespaced=True),
    "compacted": sa.select(meta.c.value).where(meta.c.name == "compacted"),
    "superseded": _superseded(),
    "record": sa.insert(timeline).values({name: sa.bindparam(name) for name in _TIMELINE}),
    "timeline": sa.select(timeline)
    .where(timeline.c.revision >= sa.bindparam("since"), timeline.c.seq > sa.bindparam("seq"))
    .order_by(timeline.c.seq),
}


def compile_all(dialect: Dialect) -> dict[str, Statement]:
    """Placeholders of `dialect` must be positional."""
    named = {
        **NAMED,
        "states": _states(dialect),
        "put_object": _put_object(dialect),
        "put_meta": _put_meta(dialect),
    }
    return {name: _compile(name, clause, dialect.compiler) for name, clause in named.items()}


def _compile(name: str, clause: sa.ClauseElement, dialect: sqlalchemy.engine.Dialect) -> Statement:
    compiled: Any = clause.compile(dialect=dialect)
    constants = {key: value for key, value in compiled.params.items() if value is not None}
    return Statement(name, str(compiled), tuple(compiled.positiontup or ()), constants)


def microseconds(moment: datetime) -> int:
    """Counts from 1970."""
    return (moment - EPOCH) // MICROSECOND


def moment_of(time: int) -> datetime:
    """`time` is in microseconds since 1970."""
    return EPOCH + timedelta(microseconds=time)


def event_row(event: Event, previous: int, digest: int) -> Row:
    """Leaves out the checksum; `previous` is the event before, also if it was a deletion."""
    key, author = event.key, event.author
    return (
        event.revision, key.resource, key.namespace, key.name, event.uid, event.verb.value, event.value,
        previous, event.created, author.user, author.component, author.component_version,
        author.server_version, author.request_id, microseconds(event.time), digest,
    )  # fmt: skip


def event_of(row: Sequence[Any]) -> Event:
    """Columns are those of `after`: the columns of `events`, then the value before.

    A damaged event has DAMAGED as its value; one that does not even name its object raises ValueError.
    """
    value, before = (row[6], row[EVENT_COLUMNS]) if is_intact(row) else (_damaged(row), DAMAGED)
    verb = Verb(row[5])
    created = verb is Verb.CREATE
    return Event(
        revision=row[0],
        verb=verb,
        key=Key(row[1], row[2], row[3]),
        uid=row[4],
        value=value,
        previous=0 if created else row[7],
        previous_value=None if created else before,
        author=Author(row[9], row[10], row[11], row[12], row[13]),
        time=EPOCH if value is DAMAGED else moment_of(row[14]),
        created=row[8],
    )


def _damaged(row: Sequence[Any]) -> bytes:
    """Raises ValueError if a row is too damaged to be an event that cannot be read."""
    texts = (*row[1:6], *row[9:14])
    numbers = (row[0], row[7], row[8])
    if not all(isinstance(text, str) for text in texts) or row[5] not in set(Verb):
        raise ValueError(f"the event at revision {row[0]} is damaged beyond recognition")
    if not all(isinstance(number, int) for number in numbers):
        raise ValueError(f"the event at revision {row[0]} is damaged beyond recognition")
    return DAMAGED


def entry_of(row: Sequence[Any]) -> Entry:
    """Columns are those of `objects`."""
    return Entry(Key(row[0], row[1], row[2]), row[3], row[4], row[5], row[6])


def entry_of_event(row: Sequence[Any]) -> Entry:
    """`row` is one of `events`, and no deletion."""
    value = row[6] if is_intact(row) else DAMAGED
    return Entry(Key(row[1], row[2], row[3]), row[4], row[0], row[8], value)


def entry_row(entry: Entry) -> Row:
    """Columns are those of `objects`."""
    key = entry.key
    return (key.resource, key.namespace, key.name, entry.uid, entry.revision, entry.created, entry.value)


def component_event_of(row: Sequence[Any]) -> ComponentEvent:
    """Columns are those of `timeline`."""
    return ComponentEvent(row[1], row[2], row[3], row[4], row[5], moment_of(row[6]), row[7])
