"""Printer columns as a source tree has them."""

import json
from pathlib import Path

import pytest
from written_trees import written_tree

from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.printer_columns import column_descriptions, printer_columns

PRINTERS = "pkg/printers/internalversion/printers.go"
HANDLERS = """package internalversion

import (
	apiv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/things"
)

func AddHandlers(h printers.PrintHandler) {
	eventColumns := []metav1.TableColumnDefinition{
		{Name: "Last Seen", Type: "string", Description: apiv1.Event{}.SwaggerDoc()["lastTimestamp"]},
		{Name: "Part", Type: "string", Priority: 1, Description: apiv1.Event{}.Part.SwaggerDoc()["path"]},
	}
	_ = h.TableHandler(eventColumns, printEvent)
	_ = h.TableHandler(eventColumns, printEventList)

	thingColumns := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "Its name."},
	}
	thingColumns = append(thingColumns, []metav1.TableColumnDefinition{
		{Name: "Size", Type: "integer", Description: "How " + "large."},
	}...)
	h.TableHandler(thingColumns, printThing)
}

func printEvent(event *api.Event, options printers.GenerateOptions) ([]metav1.TableRow, error) {
	return nil, nil
}

func printEventList(list *api.EventList, options printers.GenerateOptions) ([]metav1.TableRow, error) {
	return nil, nil
}

func printThing(thing *things.Thing, options printers.GenerateOptions) ([]metav1.TableRow, error) {
	return nil, nil
}
"""
AGGREGATOR = """package etcd

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

var descriptions = metav1.ObjectMeta{}.SwaggerDoc()

func (c *REST) ConvertToTable() *metav1.Table {
	return &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: descriptions["name"]},
		},
	}
}
"""
EVENTS = """package events

import "k8s.io/kubernetes/pkg/apis/core"

const GroupName = "events.k8s.io"

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &core.Event{}, &core.EventList{})
}
"""
INTERNAL = """package core

type Event struct {
	Part Other
}

type EventList struct {
	metav1.ListMeta
}
"""
EXTERNAL = """package v1

type Event struct {
	Part Reference
}

var map_Event = map[string]string{
	"lastTimestamp": "When it was last seen.",
}

var map_Reference = map[string]string{
	"path": "What part.",
}
"""
META = 'package v1\n\nvar map_ObjectMeta = map[string]string{"name": "A name."}\n'
EVENT = {
    "resource": "events",
    "singularResource": "event",
    "scope": "Namespaced",
    "verbs": ["list"],
    "responseKind": {"group": "", "kind": "Event"},
}
GROUP = {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [EVENT]}]}
FILES = {
    PRINTERS: HANDLERS,
    "staging/src/k8s.io/kube-aggregator/pkg/registry/apiservice/etcd/etcd.go": AGGREGATOR,
    "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/docs.go": META,
    "staging/src/k8s.io/api/core/v1/types.go": EXTERNAL,
    "pkg/apis/core/types.go": INTERNAL,
    "pkg/apis/core/register.go": 'package core\n\nconst GroupName = ""\n',
    "pkg/apis/events/register.go": EVENTS,
    "pkg/apis/things/register.go": 'package things\n\nconst GroupName = "things.k8s.io"\n',
    "api/discovery/aggregated_v2.json": json.dumps({"items": [GROUP]}),
    "api/discovery/api__v1.json": '{"resources": []}',
}


def test_columns_by_kind(tmp_path: Path) -> None:
    """Lists have none of their own; a kind of another group is printed as the one that it is."""
    events = [["Last Seen", "string", "", 0], ["Part", "string", "", 1]]

    assert printer_columns(written_tree(tmp_path, FILES)) == {
        "/Event": events,
        "apiregistration.k8s.io/APIService": [["Name", "string", "name", 0]],
        "events.k8s.io/Event": events,
        "things.k8s.io/Thing": [["Name", "string", "name", 0], ["Size", "integer", "", 0]],
    }


def test_descriptions_of_columns(tmp_path: Path) -> None:
    """They are written out, or the documentation of a field, be it of a field's type."""
    described = column_descriptions(written_tree(tmp_path, FILES))

    assert described["/Event"] == {"Last Seen": "When it was last seen.", "Part": "What part."}
    assert described["things.k8s.io/Thing"] == {"Name": "Its name.", "Size": "How large."}
    assert described["apiregistration.k8s.io/APIService"] == {"Name": "A name."}


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        (
            "thingColumns, printThing",
            "thingColumns, printOther",
            "24: no function of this name prints a kind",
        ),
        ("TableHandler(thingColumns,", "TableHandler(other(),", "24: these are no columns that can be read"),
        ('Type: "integer"', "Type: kind()", "22: this is no string constant that can be read"),
        (
            "\th.TableHandler(thingColumns, printThing)",
            "\tif on {\n\t\th.TableHandler(thingColumns, printThing)\n\t}",
            "24: columns that depend on a condition cannot be imported",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, written: str, instead: str, problem: str) -> None:
    """An error has the file and the line."""
    assert written in HANDLERS
    with pytest.raises(TreeError, match=f"printers.go:{problem}"):
        printer_columns(written_tree(tmp_path, {**FILES, PRINTERS: HANDLERS.replace(written, instead)}))
