"""Field sets, typed values and the field manager beyond what was recorded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_in_process import Caller, close_server, open_server
from widgets import SPEC, WIDGET

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.apply.managedfields import (
    FieldManager,
    FieldSet,
    field_manager,
    fieldpath,
    scale_handler,
)
from kubeskew.apiserver.apply.managedfields.fieldpath import canonical, in_order, keyed, show, valued
from kubeskew.apiserver.apply.managedfields.typed import merge, to_field_set, validate

MANAGER = FieldManager(lambda version: WIDGET if version in ("e/v1", "e/v2") else None)
MANAGER_OF_OLD = FieldManager(lambda version: WIDGET if version == "e/v1" else None, refuses_duplicates=True)


def widget(version="v1", metadata=None, **spec):
    return {
        "apiVersion": f"e/{version}",
        "kind": "Widget",
        "metadata": {"name": "a", **(metadata or {})},
        "spec": spec,
    }


def stored(obj):
    """Returns the object as the server would keep it."""
    return {**obj, "metadata": {**obj["metadata"], "uid": "u"}}


def owners(obj):
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
    }


# --- path elements and sets -----------------------------------------------------------------------------


def test_elements_have_one_text():
    """Equal elements have equal text, however they were written."""
    assert canonical('k:{"b":1.0, "a":"x"}') == 'k:{"a":"x","b":1}' == keyed({"b": 1, "a": "x"})
    assert canonical('v: "x"') == valued("x")
    assert canonical("i:03") == "i:3"
    assert canonical("z:new") is None
    assert keyed({"name": "<&>"}) == 'k:{"name":"\\u003c\\u0026\\u003e"}'
    assert canonical(keyed({"name": "<&>"})) == keyed({"name": "<&>"})


@pytest.mark.parametrize("text", ["f", "fx", "v:{", "k:[1]", "i:x"])
def test_bad_elements(text):
    """A text that is no path element of fieldsV1 raises ValueError."""
    with pytest.raises(ValueError, match=r"."):
        canonical(text)


def test_order_of_elements():
    """Fields come first, then keys, values and positions, each by content and not by text."""
    elements = [
        "i:10",
        "i:9",
        "v:10",
        "v:9",
        'v:"a"',
        "v:true",
        'k:{"a":10}',
        'k:{"a":9}',
        "f:b",
        "f:a",
        "v:null",
    ]
    assert in_order(elements) == [
        "f:a", "f:b", 'k:{"a":9}', 'k:{"a":10}', "v:9", "v:10", 'v:"a"', "v:true", "v:null", "i:9", "i:10",
    ]  # fmt: skip


def test_paths_in_messages():
    """A path reads as in upstream's messages."""
    path = ("f:spec", 'k:{"name":"c","port":80}', 'v:"x"', "i:0", "f:image")
    assert show(path) == '.spec[name="c",port=80][="x"][0].image'


element = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'v:"y"'])
sets = st.lists(st.lists(element, min_size=1, max_size=3), max_size=6).map(lambda paths: FieldSet.of(*paths))


@given(sets, sets)
def test_set_laws(left, right):
    """Union, intersection and difference are those of sets of paths."""
    ours, theirs = set(left.paths()), set(right.paths())
    assert set(left.union(right).paths()) == ours | theirs
    assert set(left.intersection(right).paths()) == ours & theirs
    assert set(left.difference(right).paths()) == ours - theirs
    assert left.difference(right).union(left.intersection(right)) == left


@given(sets, sets)
def test_recursive_difference(left, right):
    """A recursive difference also drops what lies below."""
    gone = set(right.paths())
    kept = {path for path in left.paths() if not any(path[:size] in gone for size in range(1, len(path) + 1))}
    assert set(left.recursive_difference(right).paths()) == kept


@given(sets)
def test_set_round_trip(fields):
    """FieldsV1 says all of a set."""
    assert FieldSet.from_fields(json.loads(json.dumps(fields.to_fields()))) == fields
    assert not fields.is_empty() or fields.to_fields() == {}


def test_unknown_elements_are_left_out():
    """Elements of a kind that a later release may bring are ignored."""
    assert FieldSet.from_fields({"z:x": {}, "f:a": {".": {}, "f:b": {}}}) == FieldSet.of(
        ["f:a"], ["f:a", "f:b"]
    )


# --- typed values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": True}, ".spec.size: expected numeric (int or float), got bool"),
        ({"text": 1}, ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        ({"on": "x"}, ".spec.on: expected boolean, got &{x}"),
        ({"amount": {"a": 1}}, ".spec.amount: expected any scalar, got &{map[a:1]}"),
        ({"labels": {"a": 1}}, ".spec.labels.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"steps": "x"}, ".spec.steps: expected list, got &{x}"),
        ({"items": [None]}, ".spec.items: element 0: associative list with keys may not have a null element"),
        (
            {"items": ["x"]},
            ".spec.items: element 0: associative list with keys may not have non-map elements",
        ),
        ({"items": [{"name": "a", "x": 1}]}, '.spec.items[name="a"].x: field not declared in schema'),
        ({"tags": [["x"]]}, ".spec.tags: element 0: not supported: associative list with lists as elements"),
        (
            {"tags": [{}]},
            ".spec.tags: element 0: associative list without keys has an element that's a map type",
        ),
        ({"steps": [1]}, ".spec.steps[0]: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"size": "x", "text": 2},
            (
                "errors:\n  .spec.size: expected numeric (int or float), got string\n"
                "  .spec.text: expected string, got &value.valueUnstructured{Value:2}"
            ),
        ),
    ],
)
def test_misfits(spec, message):
    """A configuration that does not fit is a 500 with upstream's text."""
    with pytest.raises(StatusError) as raised:
        MANAGER.apply(None, widget(**spec), "m", False)
    assert raised.value.message == f"failed to create typed patch object (/a; e/v1, Kind=Widget): {message}"
    assert (raised.value.code, raised.value.reason) == (500, "")


def test_partial_keys():
    """A key with a default counts though it is not written; one without may be missing next to it."""
    fields = to_field_set({"ports": [{"name": "a"}, {"value": "x"}]}, SPEC).to_fields()
    assert list(fields["f:ports"]) == ['k:{"name":"a","protocol":"TCP"}', 'k:{"protocol":"TCP"}']


scalar_specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(0, 3),
        "text": st.sampled_from(["x", "y"]),
        "tags": st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        "items": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from("abcd")}, optional={"value": st.sampled_from("xy")}
            ),
            unique_by=lambda item: item["name"],
            max_size=3,
        ),
        "steps": st.lists(st.sampled_from("ab"), max_size=2),
        "labels": st.dictionaries(st.sampled_from("kl"), st.sampled_from("xy"), max_size=2),
        "atom": st.dictionaries(st.sampled_from("kl"), st.sampled_from("xy"), max_size=2),
        "free": st.dictionaries(st.sampled_from("kl"), st.integers(0, 1) | st.just([1]), max_size=2),
    },
)


@given(scalar_specs, scalar_specs)
def test_apply_twice(live, config):
    """Applying the same configuration again changes nothing."""
    first = stored(MANAGER.update(None, widget(**live), "creator", now="1"))
    once = MANAGER.apply(first, widget(**config), "m", True, now="2")
    assert MANAGER.apply(once, widget(**config), "m", True, now="3") == once


@given(scalar_specs, scalar_specs)
def test_merge_laws(live, config):
    """A merge holds all that the configuration says, and merging nothing changes nothing.

    An empty map says nothing where there is one already.
    """
    validate(live, SPEC)
    config = {name: value for name, value in config.items() if value != {}}
    merged = merge(live, config, SPEC)
    assert merge(live, {}, SPEC) == live
    assert merge(merged, config, SPEC) == merged
    wanted = set(to_field_set(config, SPEC).paths())
    assert wanted <= set(to_field_set(merged, SPEC).paths())


@given(st.lists(scalar_specs, min_size=1, max_size=4))
def test_applier_leaves_no_trace(configs):
    """Fields that an applier applied once and no longer applies are gone from the object.

    It always applies something: an object nobody owns anything of has its fields from before the first apply.
    """
    configs = [{"size": 1, **config} for config in configs]
    live = None
    for number, config in enumerate(configs):
        live = MANAGER.apply(live, widget(**config), "m", True, now=str(number))
    plain = MANAGER.apply(None, widget(**configs[-1]), "m", True, now="0")
    fields = to_field_set(live.get("spec") or {}, SPEC)
    assert fields == to_field_set(plain["spec"], SPEC)


@given(st.lists(st.tuples(st.sampled_from("ab"), scalar_specs), min_size=1, max_size=5))
def test_updates_have_one_owner(writes):
    """After updates, every field that is set is owned, and by one manager only."""
    live = None
    for number, (manager, spec) in enumerate(writes):
        live = stored(MANAGER.update(live, widget(**spec), manager, now=str(number)))
    seen = FieldSet()
    for fields in owners(live).values():
        theirs = FieldSet.from_fields(fields)
        assert seen.intersection(theirs).is_empty()
        seen = seen.union(theirs)
    assert to_field_set({"spec": live["spec"]}, WIDGET).difference(seen).is_empty()


# --- the field manager ----------------------------------------------------------------------------------


def test_objects_are_left_alone():
    """An apply and an update change neither the live object nor the given one."""
    live = stored(MANAGER.update(None, widget(size=1, items=[{"name": "a"}]), "c", now="1"))
    config = widget(size=2, items=[{"name": "b"}])
    before = json.dumps([live, config])
    MANAGER.apply(live, config, "m", True, now="2")
    MANAGER.update(live, config, "m", now="2")
    assert json.dumps([live, config]) == before


def test_a_write_without_change_keeps_times():
    """An entry keeps its time while nothing of it changes."""
    live = stored(MANAGER.update(None, widget(size=1), "c", now="1"))
    again = MANAGER.update(live, widget(size=1), "other", now="2")
    assert again["metadata"]["managedFields"] == live["metadata"]["managedFields"]
    changed = MANAGER.update(live, widget(size=2), "c", now="3")
    assert [entry["time"] for entry in changed["metadata"]["managedFields"]] == ["3"]


def test_order_of_entries():
    """Appliers come first, then the older entry."""
    live = stored(MANAGER.update(None, widget(size=1), "z", now="2026-01-01T00:00:01Z"))
    live = MANAGER.update(live, widget(size=1, text="x"), "a", now="2026-01-01T00:00:02Z")
    live = MANAGER.apply(live, widget(on=True), "m", False, now="2026-01-01T00:00:03Z")
    assert [entry["manager"] for entry in live["metadata"]["managedFields"]] == ["m", "z", "a"]


def test_ten_updaters_at_most():
    """Of more than ten updaters the oldest become one."""
    live = None
    for number in range(14):
        labels = {f"l{past}": "x" for past in range(number + 1)}
        new = widget(metadata={"labels": labels})
        live = stored(MANAGER.update(live, new, f"m{number:02}", now=f"2026-01-01T00:00:{number:02}Z"))
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    assert entries[0]["time"] == "2026-01-01T00:00:04Z"
    assert [entry["manager"] for entry in entries[1:]] == [f"m{number:02}" for number in range(5, 14)]
    assert set(entries[0]["fieldsV1"]["f:metadata"]["f:labels"]) == {".", *(f"f:l{n}" for n in range(5))}


def test_clearing_and_first_apply():
    """Forgotten managers stay forgotten until the first apply, which knows them as one."""
    live = stored(MANAGER.update(None, widget(size=1), "c", now="1"))
    cleared = MANAGER.update(live, widget(metadata={"managedFields": [{}]}, size=1), "c", now="2")
    assert "managedFields" not in cleared["metadata"]
    later = stored(MANAGER.update(stored(cleared), widget(size=2), "c", now="3"))
    assert "managedFields" not in later["metadata"]
    applied = MANAGER.apply(later, widget(text="x"), "m", False, now="4")
    assert owners(applied) == {
        ("m", "Apply"): {"f:spec": {"f:text": {}}},
        ("before-first-apply", "Update"): {"f:spec": {".": {}, "f:size": {}}},
    }


def test_client_may_set_managers():
    """Sensible managedFields in an update are believed, others are not; a subresource may not set them."""
    live = stored(MANAGER.update(None, widget(size=1), "c", now="1"))
    entry = {"manager": "x", "operation": "Update", "apiVersion": "e/v1", "fieldsType": "FieldsV1"}
    given_entry = {**entry, "fieldsV1": {"f:spec": {"f:size": {}}}}
    new = widget(metadata={"managedFields": [given_entry]}, size=1)
    assert list(owners(MANAGER.update(live, new, "c", now="2"))) == [("x", "Update")]
    assert list(owners(MANAGER.update(live, new, "c", "status", now="2"))) == [("c", "Update")]
    for bad in ({**entry, "operation": "X"}, {**entry, "fieldsType": "V2"}, {**entry, "apiVersion": ""}):
        new = widget(metadata={"managedFields": [{**bad, "fieldsV1": {}}]}, size=1)
        assert list(owners(MANAGER.update(live, new, "c", now="2"))) == [("c", "Update")]


def test_apply_refuses():
    """A configuration may have no managedFields and must be of the kind and version applied to."""
    with pytest.raises(StatusError, match=r"metadata\.managedFields must be nil"):
        MANAGER.apply(None, widget(metadata={"managedFields": []}), "m", False)
    live = MANAGER.apply(None, widget(size=1), "m", False)
    with pytest.raises(StatusError, match="invalid object type: e/v2, Kind=Widget") as raised:
        MANAGER.apply(live, widget("v2", size=1), "m", False)
    assert raised.value.code == 400


def test_conflicts_are_listed():
    """Several conflicts are reported by manager, with a cause each."""
    live = MANAGER.apply(None, widget(size=1, items=[{"name": "a", "value": "x"}]), "one", False, now="1")
    live = MANAGER.update(
        stored(live), widget(size=1, text="t", items=[{"name": "a", "value": "x"}]), "two", now="2"
    )
    with pytest.raises(StatusError) as raised:
        MANAGER.apply(live, widget(size=2, text="u", items=[{"name": "a", "value": "y"}]), "three", False)
    assert raised.value.message == (
        "Apply failed with 3 conflicts: "
        'conflicts with "one":\n- .spec.size\n- .spec.items[name="a"].value\n'
        'conflicts with "two" using e/v1:\n- .spec.text'
    )
    assert len(raised.value.details["causes"]) == 3


def test_versions():
    """An applier is the same at every version; a version that is no longer known is forgotten."""
    live = MANAGER.apply(None, widget("v1", size=1, text="x"), "m", False, now="1")
    later = {**live, "apiVersion": "e/v2"}
    moved = MANAGER.apply(later, widget("v2", size=1), "m", False, now="2")
    assert moved["spec"] == {"size": 1}
    assert [entry["apiVersion"] for entry in moved["metadata"]["managedFields"]] == ["e/v2"]
    entry = {"manager": "old", "operation": "Apply", "apiVersion": "e/v0", "fieldsType": "FieldsV1"}
    gone = {**entry, "fieldsV1": {"f:spec": {"f:size": {}}}}
    live["metadata"]["managedFields"].append(gone)
    assert list(owners(MANAGER.apply(live, widget(size=2), "m", False, now="3"))) == [("m", "Apply")]


def test_fields_that_became_atomic():
    """Ownership below something that the schema now treats as a whole becomes ownership of the whole."""
    live = MANAGER.apply(None, widget(atom={"k": "x"}), "m", False, now="1")
    live["metadata"]["managedFields"][0]["fieldsV1"] = {"f:spec": {"f:atom": {"f:k": {}}}}
    with pytest.raises(StatusError, match="conflict with"):
        MANAGER.apply(live, widget(atom={"l": "y"}), "other", False)


def test_kubectl_takes_over_from_client_side_apply():
    """kubectl may overrule whoever applied what its annotation says, and keeps the annotation right."""
    applied = json.dumps(widget(size=1))
    created = widget(metadata={"annotations": {field_manager.ANNOTATION: applied}}, size=1)
    live = stored(MANAGER.update(None, created, "kubectl-client-side-apply", now="1"))
    taken = MANAGER.apply(live, widget(size=2), "kubectl", False, now="2")
    assert taken["spec"] == {"size": 2}
    assert json.loads(taken["metadata"]["annotations"][field_manager.ANNOTATION]) == widget(size=2)
    with pytest.raises(StatusError, match="conflict"):
        MANAGER.apply(live, widget(size=2), "someone", False)
    changed = stored(MANAGER.update(live, {**created, "spec": {"size": 5}}, "hand", now="3"))
    with pytest.raises(StatusError, match='conflict with "hand"'):
        MANAGER.apply(changed, widget(size=2), "kubectl", False)


def test_scale():
    """A Scale shows who owns the replicas; who writes them through it owns them in the object."""
    path = scale_handler.replicas_path(".spec.size")
    paths = {"e/v1": path}
    live = MANAGER.apply(None, widget(size=1, text="x"), "m", False, now="1")
    parent = live["metadata"]["managedFields"]
    seen = scale_handler.to_scale(parent, paths)
    assert [(entry["manager"], entry["apiVersion"], entry["fieldsV1"]) for entry in seen] == [
        ("m", "autoscaling/v1", {"f:spec": {"f:replicas": {}}})
    ]
    assert scale_handler.to_parent(parent, seen, "e/v1", paths) == parent
    scaler = {**seen[0], "manager": "hpa", "operation": "Update", "subresource": "scale"}
    after = scale_handler.to_parent(parent, [scaler], "e/v1", paths)
    assert [(entry["manager"], entry["fieldsV1"]) for entry in after] == [
        ("m", {"f:spec": {"f:text": {}}}),
        ("hpa", {"f:spec": {"f:size": {}}}),
    ]


def test_field_element():
    """A field's element is its name."""
    assert fieldpath.field("a.b/c") == "f:a.b/c"


@pytest.mark.parametrize("minor", [26, 30])
async def test_lists_without_a_list_type_are_merged_as_patches_merge_them(minor):
    """In every release an apply leaves alone what others added to a container: its token's mount."""
    server = await open_server(minor)
    api, pods = Caller(server), "/api/v1/namespaces/default/pods"
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    body["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    assert (await api.post(f"{pods}?fieldManager=first", body)).status == 201
    body["spec"]["containers"][0]["image"] = "j"

    applied = await api.patch(f"{pods}/p?fieldManager=second&force=true", body, "apply")

    (container,) = applied.body["spec"]["containers"]
    assert (applied.status, container["image"], len(container["volumeMounts"])) == (200, "j", 1)
    entry = next(one for one in applied.body["metadata"]["managedFields"] if one["manager"] == "second")
    assert list(entry["fieldsV1"]["f:spec"]["f:containers"]) == ['k:{"name":"c"}']
    await close_server(server)


def test_lists_that_repeat_a_key_lose_managers_and_refuse_applies_where_the_server_does():
    """An API server up to 1.28 drops all managers of such an object, and applies nothing to it."""
    odd = MANAGER_OF_OLD.update(None, widget(items=[{"name": "A"}, {"name": "A"}]), "editor")
    config = widget(metadata={"labels": {"app": "web"}})

    assert owners(odd) == {}
    with pytest.raises(
        StatusError, match=r"failed to create manager for existing fields: .*duplicate entries"
    ):
        MANAGER_OF_OLD.apply(stored(odd), config, "me", force=True)
    assert owners(MANAGER.update(None, odd, "editor"))
    assert MANAGER.apply(stored(odd), config, "me", force=True)["metadata"]["labels"] == {"app": "web"}
