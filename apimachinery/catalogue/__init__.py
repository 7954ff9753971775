"""The API catalogue: which types, fields and resources a release has, and what each server serves of them.

`catalogue_for(version, gates, runtime_config)` makes or finds one. The data are in `data/catalogue.json`,
made by `make catalogue`; loading waits for the first use.
"""

from kubeskew.apimachinery.catalogue.served_resources import parse_runtime_config
from kubeskew.apimachinery.catalogue.table import Catalogue, catalogue_for

__all__ = ["Catalogue", "catalogue_for", "parse_runtime_config"]
