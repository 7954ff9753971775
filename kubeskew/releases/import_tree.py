"""Makes a release of a Kubernetes source tree: reads its subjects, assembles the catalogue, reports the rest.

    files = read_release(tree, name, base, progress)

`files` has the contents of the release's directory by file name:

    catalogue.json       types, resources, storage versions, columns of that one release (catalogue/assembly.py)
    gates.json           {"gates": {name: [stage, default, locked]}, "dependencies": {name: [names]}}
    default_roles.json   roles and bindings of a fresh cluster
    openapi.json         what the published documents say beyond the catalogue
    descriptions.json    prose of definitions and fields
    columns.json         prose of table columns
    numbers.json, internal_types.json, device_structs.json, pod_template.json
                         layouts of Go structs: protobuf numbers, names in errors, hashes of templates
    code.json            digests of the source files whose behaviour kubeskew has from the base

Nothing of a tree is executed.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.versions import Version
from kubeskew.releases.catalogue.assembly import assembled, read_releases
from kubeskew.releases.catalogue.resources import resource_row
from kubeskew.releases.directory import ImportedRelease
from kubeskew.releases.tree.source_tree import SourceTree

Document = dict[str, Any]
Progress = Callable[[str], None]
