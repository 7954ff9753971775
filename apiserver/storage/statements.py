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
from kubeskew.migrations.tables import authors, events, leases, meta, objects, renewals, siblings, timeline

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

    async def write_briefly(self, work: Callable[[Session], T]) -> T:
        """The same for `work` that is done in a few milliseconds: it may hold up the caller's thread."""
        ...

    async def read(self, work: Callable[[Session], T]) -> T:
        """Runs `work` on one snapshot."""
        ...

    async def damages(self) -> Sequence[str]:
        """Lists what the database finds wrong with itself, where it has a check of its own."""
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

    async def size(self) -> int:
        """Bytes of the database."""
        ...

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


EVENT_COLUMNS = len(events.c)
_LEARNT = EVENT_COLUMNS + 1  # where `authors` begins in a row of `after`, behind the value before
_KEY = ("resource", "namespace", "name")
_AUTHOR = ("user", "component", "component_version", "server_version", "request_id")
_before = events.alias("before")
_columns_after: tuple[Any, ...] = (_before.c.value, *(authors.c[name] for name in _AUTHOR))
_event_columns: tuple[Any, ...] = (events, *_columns_after)


def _of_same(table: sa.FromClause, other: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.and_(*(table.c[name] == other.c[name] for name in _KEY))


def _completed(table: sa.Table, sub: sa.ColumnElement[int]) -> sa.Join:
    """Joins the events before, as far as they are in `events`, and authors that were learnt."""
    before = sa.and_(
        _before.c.revision == table.c.previous, table.c.verb != Verb.CREATE.value, _of_same(_before, table)
    )
    learnt = sa.and_(authors.c.revision == table.c.revision, authors.c.sub == sub)
    return table.outerjoin(_before, before).outerjoin(authors, learnt)


_event_source = _completed(events, sa.literal_column("0"))
_sibling_columns: tuple[Any, ...] = (siblings, *_columns_after)
_sibling_source = _completed(siblings, siblings.c.sub)


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


def _siblings_after(*, filtered: bool) -> sa.Select[Any]:
    found = (
        sa.select(*_sibling_columns)
        .select_from(_sibling_source)
        .where(siblings.c.revision > sa.bindparam("revision"), siblings.c.revision <= sa.bindparam("until"))
        .order_by(siblings.c.revision, siblings.c.sub)
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )
    wanted = siblings.c.resource.concat("") == sa.bindparam("resource")
    return found.where(wanted) if filtered else found


def _latest(table: sa.Table, *parts: str) -> sa.Select[Any]:
    """Selects the newest revision of each key up to `revision`, deletions included."""
    return (
        sa.select(*(table.c[name] for name in _KEY), sa.func.max(table.c.revision).label("revision"))
        .where(table.c.revision <= sa.bindparam("revision"))
        .where(*(table.c[name] == sa.bindparam(name) for name in parts))
        .group_by(*(table.c[name] for name in _KEY))
    )


def _entries_at(*parts: str) -> sa.Select[Any]:
    latest = _latest(events, *parts).subquery("latest")
    return (
        sa.select(events)
        .join(latest, events.c.revision == latest.c.revision)
        .where(events.c.verb != Verb.DELETE.value)
    )


def _siblings_at(*parts: str) -> sa.Select[Any]:
    """Selects deletions, too, which may end what `events` have."""
    latest = _latest(siblings, *parts).subquery("latest")
    return sa.select(siblings).join(
        latest, sa.and_(siblings.c.revision == latest.c.revision, _of_same(siblings, latest))
    )


def _history(table: sa.Table, columns: Sequence[Any], source: sa.Join) -> sa.Select[Any]:
    return (
        sa.select(*columns)
        .select_from(source)
        .where(*(table.c[name] == sa.bindparam(name) for name in _KEY))
        .order_by(table.c.revision)
    )


def _states(dialect: Dialect, table: sa.Table) -> sa.Select[Any]:
    """Selects per asked key its place in the list, the current object, and the last event of `table`, even a
    deletion.

    An event that is not a deletion comes as a negative number if there is no object: there should be one.

    """
    here = sa.and_(*(objects.c[name] == part for name, part in zip(_KEY, dialect.parts, strict=True)))
    missing = objects.c.revision.is_(None)
    return sa.select(
        dialect.place,
        *(objects.c[name] for name in ("uid", "revision", "created", "value", "updates", "lease")),
        sa.case((missing, _last(table, dialect)), else_=objects.c.revision),
    ).select_from(dialect.asked.outerjoin(objects, here))


def _last(table: sa.Table, dialect: Dialect) -> sa.ScalarSelect[Any]:
    signed = sa.case((table.c.verb == Verb.DELETE.value, table.c.revision), else_=-table.c.revision)
    return (
        sa.select(signed)
        .where(*(table.c[name] == part for name, part in zip(_KEY, dialect.parts, strict=True)))
        .order_by(table.c.previous.desc())
        .limit(sa.literal_column("1"))
        .scalar_subquery()
        .correlate(dialect.asked)
    )


def _superseded(table: sa.Table) -> sa.ColumnElement[bool]:
    """True for the events that those in (`since`, `until`] end: states before them, and deletions."""
    newest = sa.select(sa.func.max(events.c.revision)).correlate(None).scalar_subquery()
    later = [events.alias("later"), siblings.alias("later_siblings")]
    ended = sa.union_all(
        *(
            sa.select(other.c.previous).where(
                other.c.revision > sa.bindparam("since"), other.c.revision <= sa.bindparam("until")
            )
            for other in later
        )
    )
    # A revision can be of several keys, and not all of them need have ended.
    is_ended = [
        sa.exists().where(
            _of_same(other, table),
            other.c.previous == table.c.revision,
            other.c.revision <= sa.bindparam("until"),
        )
        for other in later
    ]
    deletion = sa.and_(
        table.c.verb == Verb.DELETE.value,
        table.c.revision >= sa.bindparam("since"),  # the last compaction may have had to leave one
        table.c.revision <= sa.bindparam("until"),
    )
    # The newest event always stays: the next revision is counted from it.
    is_superseded = sa.or_(sa.and_(table.c.revision.in_(ended), sa.or_(*is_ended)), deletion)
    return sa.and_(is_superseded, table.c.revision < newest)


def _put_object(dialect: Dialect) -> Any:
    put = dialect.upsert(objects)
    changed = {
        name: put.excluded[name] for name in ("uid", "revision", "created", "value", "updates", "lease")
    }
    return put.on_conflict_do_update(index_elements=list(objects.primary_key), set_=changed)


def _put_meta(dialect: Dialect) -> Any:
    put = dialect.upsert(meta)
    return put.on_conflict_do_update(index_elements=[meta.c.name], set_={"value": put.excluded.value})


def _put_author(dialect: Dialect) -> Any:
    """The first one counts."""
    return dialect.upsert(authors).on_conflict_do_nothing(index_elements=list(authors.primary_key))


def _present(dialect: Dialect) -> sa.CompoundSelect[Any]:
    """Selects which of the asked places have an event; a place is asked for as a key with an empty name."""
    revision, sub = (sa.cast(part, sa.BigInteger) for part in dialect.parts[:2])
    first = sa.and_(events.c.revision == revision, sub == sa.literal_column("0"))
    further = sa.and_(siblings.c.revision == revision, siblings.c.sub == sub)
    return sa.union_all(
        sa.select(dialect.place).select_from(dialect.asked.join(events, first)),
        sa.select(dialect.place).select_from(dialect.asked.join(siblings, further)),
    )


def _strays() -> sa.Select[Any]:
    """Selects places of authors that no event has."""
    first = sa.exists().where(events.c.revision == authors.c.revision, authors.c.sub == 0)
    further = sa.exists().where(siblings.c.revision == authors.c.revision, siblings.c.sub == authors.c.sub)
    return (
        sa.select(authors.c.revision, authors.c.sub)
        .where(sa.not_(first), sa.not_(further))
        .order_by(authors.c.revision, authors.c.sub)
    )


def _put_lease(dialect: Dialect) -> Any:
    put = dialect.upsert(leases)
    changed = {name: put.excluded[name] for name in ("ttl", "revoked")}
    return put.on_conflict_do_update(index_elements=list(leases.primary_key), set_=changed)


def _renew(dialect: Dialect) -> Any:
    put = dialect.upsert(renewals)
    changed = {"count": renewals.c.count + put.excluded["count"], "time": put.excluded.time}
    return put.on_conflict_do_update(index_elements=list(renewals.primary_key), set_=changed)


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
    "history": _history(events, _event_columns, _event_source),
    "resources": sa.union(sa.select(events.c.resource), sa.select(siblings.c.resource)).order_by("resource"),
    "entries": sa.select(objects),
    "at_all": _entries_at(),
    "at": _entries_at("resource"),
    "at_in": _entries_at("resource", "namespace"),
    "latest_all": _latest(events),
    "latest": _latest(events, "resource"),
    "latest_in": _latest(events, "resource", "namespace"),
    "shared_revisions": sa.select(siblings.c.revision).distinct().order_by(siblings.c.revision),
    "any_sibling": sa.select(siblings.c.revision).limit(1),
    "count_siblings": sa.select(sa.func.count()).select_from(siblings),
    "insert_sibling": sa.insert(siblings),
    "all_siblings": sa.select(siblings)
    .where(siblings.c.revision > sa.bindparam("revision"), siblings.c.revision <= sa.bindparam("until"))
    .order_by(siblings.c.revision, siblings.c.sub),
    "siblings_after": _siblings_after(filtered=False),
    "siblings_after_of": _siblings_after(filtered=True),
    "siblings_at_all": _siblings_at(),
    "siblings_at": _siblings_at("resource"),
    "siblings_at_in": _siblings_at("resource", "namespace"),
    "sibling_history": _history(siblings, _sibling_columns, _sibling_source),
    "sibling_value": sa.select(siblings.c.value).where(
        *(siblings.c[name] == sa.bindparam(name) for name in (*_KEY, "revision"))
    ),
    "superseded_siblings": sa.select(siblings.c.revision, siblings.c.sub).where(_superseded(siblings)),
    "remove_sibling": sa.delete(siblings).where(
        siblings.c.revision == sa.bindparam("revision"), siblings.c.sub == sa.bindparam("sub")
    ),
    "any_author": sa.select(authors.c.revision).limit(1),
    "authors": sa.select(authors)
    .where(authors.c.revision >= sa.bindparam("since"), authors.c.revision <= sa.bindparam("until"))
    .order_by(authors.c.revision, authors.c.sub),
    "stray_authors": _strays(),
    "superseded": sa.select(events.c.revision).where(_superseded(events)),
    "remove_author": sa.delete(authors).where(
        authors.c.revision == sa.bindparam("revision"), authors.c.sub == sa.bindparam("sub")
    ),
    "leases": sa.select(leases).order_by(leases.c.id, leases.c.granted),
    "live_leases": sa.select(leases.c.id, leases.c.ttl, renewals.c.count, renewals.c.time)
    .select_from(leases.outerjoin(renewals, renewals.c.lease == leases.c.id))
    .where(leases.c.revoked == 0)
    .order_by(leases.c.id),
    "lease_renewals": sa.select(sa.func.coalesce(renewals.c.count, 0))
    .select_from(leases.outerjoin(renewals, renewals.c.lease == leases.c.id))
    .where(leases.c.id == sa.bindparam("lease"), leases.c.revoked == 0),
    "forget_renewals": sa.delete(renewals).where(renewals.c.lease.not_in(sa.select(leases.c.id))),
    "revoke": sa.update(leases)
    .where(leases.c.id == sa.bindparam("lease"), leases.c.revoked == 0)
    .values(revoked=sa.bindparam("at")),
    "forget_leases": sa.delete(leases).where(leases.c.revoked > 0, leases.c.revoked <= sa.bindparam("until")),
    "compacted": sa.select(meta.c.value).where(meta.c.name == "compacted"),
    "remove_superseded": sa.delete(events).where(_superseded(events)),
    "record": sa.insert(timeline).values({name: sa.bindparam(name) for name in _TIMELINE}),
    "timeline": sa.select(timeline)
    .where(timeline.c.revision >= sa.bindparam("since"), timeline.c.seq > sa.bindparam("seq"))
    .order_by(timeline.c.seq),
}


def compile_all(dialect: Dialect) -> dict[str, Statement]:
    """Placeholders of `dialect` must be positional."""
    named = {
        **NAMED,
        "states": _states(dialect, events),
        "sibling_states": _states(dialect, siblings),
        "put_object": _put_object(dialect),
        "put_meta": _put_meta(dialect),
        "put_lease": _put_lease(dialect),
        "put_author": _put_author(dialect),
        "renew": _renew(dialect),
        "present": _present(dialect),
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
    """Ends before the checksum; `previous` is the event before, also if it was a deletion."""
    key, author = event.key, event.author
    return (
        event.revision, key.resource, key.namespace, key.name, event.uid, event.verb.value, event.value,
        previous, event.created, author.user, author.component, author.component_version,
        author.server_version, author.request_id, microseconds(event.time), digest,
    )  # fmt: skip


def event_of(row: Sequence[Any], sub: int = 0) -> Event:
    """Columns are those of `after`: the columns of `events`, then the value before and the author learnt.

    A damaged event has DAMAGED as its value; one that does not even name its object raises ValueError.
    """
    value, before = (row[6], row[EVENT_COLUMNS]) if is_intact(row, sub) else (_damaged(row), DAMAGED)
    verb = Verb(row[5])
    created = verb is Verb.CREATE
    return Event(
        row[0],
        verb,
        Key(row[1], row[2], row[3]),
        row[4],
        value,
        0 if created else row[7],
        None if created else before,
        Author(row[9], row[10], row[11], row[12], row[13]) if row[_LEARNT] is None else _learnt(row),
        EPOCH if value is DAMAGED else moment_of(row[14]),
        row[8],
        sub,
        row[17],
        row[18],
    )


def _learnt(row: Sequence[Any]) -> Author:
    """A damaged author does not count."""
    texts = row[_LEARNT:]
    return Author(*(texts if all(isinstance(text, str) for text in texts) else row[9:14]))


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
    return Entry(Key(row[0], row[1], row[2]), row[3], row[4], row[5], row[6], row[7], row[8])


def entry_of_event(row: Sequence[Any], sub: int = 0) -> Entry:
    """`row` is one of `events` or `siblings`, without `sub`, and no deletion."""
    value = row[6] if is_intact(row, sub) else DAMAGED
    return Entry(Key(row[1], row[2], row[3]), row[4], row[0], row[8], value, row[17], row[18])


def entry_row(entry: Entry) -> Row:
    """Columns are those of `objects`."""
    key = entry.key
    return (
        key.resource, key.namespace, key.name, entry.uid, entry.revision, entry.created, entry.value,
        entry.updates, entry.lease,
    )  # fmt: skip


def component_event_of(row: Sequence[Any]) -> ComponentEvent:
    """Columns are those of `timeline`."""
    return ComponentEvent(row[1], row[2], row[3], row[4], row[5], moment_of(row[6]), row[7])
