"""The graph of owners: which work follows from which event."""

from kubeskew.controllers.garbagecollector.graph import Graph, Identity, Work


def obj(name, *owners, finalizers=(), deleting=False, block=()):
    metadata = {
        "name": name,
        "uid": name,
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "K",
                "name": owner,
                "uid": owner,
                "blockOwnerDeletion": owner in block,
            }
            for owner in owners
        ],
        "finalizers": list(finalizers),
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata}


def put(graph, *arguments, **options):
    made = obj(*arguments, **options)
    return list(graph.put(Identity("v1", "K", "ns", made["metadata"]["name"], made["metadata"]["uid"]), made))


def test_an_unknown_owner_becomes_a_virtual_node_to_be_looked_up():
    """An owner that nobody has seen is a virtual node, until somebody has asked the server."""
    graph = Graph()

    assert put(graph, "child", "parent") == [Work("delete", "parent")]
    assert graph.node("parent").virtual
    assert graph.node("parent").identity.namespace == "ns"

    put(graph, "parent")

    assert not graph.node("parent").virtual
    assert [dependent.identity.name for dependent in graph.dependents(graph.node("parent"))] == ["child"]


def test_a_reference_to_elsewhere_with_the_uid_of_an_owner_is_looked_up():
    """A reference with an owner's uid but another name or namespace is looked up, in any order of events."""
    graph = Graph()
    put(graph, "parent")
    astray = obj("child", "parent")
    astray["metadata"]["ownerReferences"][0]["name"] = "stepparent"

    assert list(graph.put(Identity("v1", "K", "ns", "child", "child"), astray)) == [Work("delete", "child")]
    assert list(graph.put(Identity("v1", "K", "other", "far", "far"), obj("far", "parent"))) == [
        Work("delete", "far")
    ]

    graph = Graph()
    list(graph.put(Identity("v1", "K", "ns", "child", "child"), astray))
    put(graph, "near", "parent")
    assert put(graph, "parent") == [Work("delete", "child")]


def misled(name, place):
    """An object whose reference has the right uid and another name: `place`."""
    made = obj(name, "parent")
    made["metadata"]["ownerReferences"][0]["name"] = place
    return Identity("v1", "K", "ns", name, name), made


def test_an_owner_is_looked_for_wherever_it_is_said_to_be():
    """A wrong reference that comes first costs the others nothing: they stay dependents of their owner."""
    graph = Graph()
    assert list(graph.put(*misled("astray", "nowhere"))) == [Work("delete", "parent")]
    put(graph, "good", "parent")

    assert list(graph.absent("parent")) == [Work("delete", "astray"), Work("delete", "parent")]
    assert graph.node("parent").identity == Identity("v1", "K", "ns", "parent", "parent")
    put(graph, "parent")
    list(graph.remove("astray"))
    assert list(graph.remove("parent")) == [Work("delete", "good")]


def test_an_owner_that_is_nowhere_is_given_up():
    """Once nothing is at any of the places, all that said so are looked at, and none is asked for again."""
    graph = Graph()
    for name, place in (("one", "a"), ("two", "b"), ("three", "a")):
        list(graph.put(*misled(name, place)))

    assert list(graph.absent("parent")) == [
        Work("delete", "one"),
        Work("delete", "three"),
        Work("delete", "parent"),
    ]
    assert list(graph.absent("parent")) == [Work("delete", name) for name in ("one", "three", "two")]
    assert graph.node("parent") is None


def test_a_removed_owner_sends_us_to_its_dependents():
    """Each of them is to be looked at."""
    graph = Graph()
    put(graph, "parent")
    put(graph, "a", "parent")
    put(graph, "b", "parent")

    assert list(graph.remove("parent")) == [Work("delete", "a"), Work("delete", "b")]
    assert list(graph.remove("parent")) == []


def test_a_foreground_deletion_looks_at_dependents_and_then_itself():
    """A foreground deletion looks at dependents and itself, and when a dependent goes, at the owner again."""
    graph = Graph()
    put(graph, "parent")
    put(graph, "child", "parent", block=["parent"])

    assert put(graph, "parent", finalizers=["foregroundDeletion"], deleting=True) == [
        Work("delete", "child"),
        Work("delete", "parent"),
    ]
    assert graph.node("child").blocks("parent")
    assert list(graph.remove("child")) == [Work("delete", "parent")]


def test_an_orphaning_deletion_frees_the_dependents():
    """Marked for as long as the finalizer is there, so that a failed try is made again."""
    graph = Graph()
    put(graph, "parent")

    assert put(graph, "parent", finalizers=["orphan"], deleting=True) == [Work("orphan", "parent")]


def test_changed_owners_are_relinked():
    """The former owner forgets the dependent; the new one knows it."""
    graph = Graph()
    for name in ("one", "two"):
        put(graph, name)
    put(graph, "child", "one")
    put(graph, "child", "two")

    assert graph.dependents(graph.node("one")) == []
    assert [node.identity.name for node in graph.dependents(graph.node("two"))] == ["child"]


def test_giving_up_to_block_lets_a_waiting_owner_go_on():
    """An owner in foreground deletion is looked at when a dependent stops blocking it."""
    graph = Graph()
    put(graph, "parent", finalizers=["foregroundDeletion"], deleting=True)
    put(graph, "child", "parent", block=["parent"])

    assert put(graph, "child", "parent") == [Work("delete", "parent")]


def test_an_object_stays_under_the_version_that_it_was_first_seen_in():
    """Its events may come under another version later, but it is looked up and deleted as before."""
    graph = Graph()
    put(graph, "child", "parent")
    list(graph.put(Identity("v2", "K", "ns", "child", "child"), obj("child", "parent")))

    assert graph.node("child").identity.api_version == "v1"
