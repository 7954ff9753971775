"""The differences between releases in the language of expressions."""

from kubeskew.apimachinery.features import FeatureTable, since


class LanguageFeatures(FeatureTable):
    """The language that expressions of a release may use, and the checks of its compiler."""

    optionals: bool = since(28)
    compares_types: bool = since(28)  # numbers of different types compare
    validated: bool = since(29)  # literal durations, timestamps, patterns and formats, when compiling
    keywords: bool = since(31)  # fields that are named like reserved words can be selected by those names
    shows_result_type: bool = since(31)  # errors name the type that a result has
