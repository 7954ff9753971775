"""Lists the models that this scheduler knows, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from kubeskew.scheduler.plugins.dynamicresources.semantic.models.counter import CounterModel
from kubeskew.scheduler.plugins.dynamicresources.semantic.models.metadata import MetadataModel
from kubeskew.scheduler.plugins.dynamicresources.semantic.models.model import Model

MODELS: Mapping[str, Model] = MappingProxyType(
    {model.name: model for model in (CounterModel(), MetadataModel())}
)
