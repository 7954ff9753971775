"""The features of CEL that differ between releases."""

from kubeskew.apimachinery.features import FeatureTable, since


class LanguageFeatures(FeatureTable):
    """The syntax of CEL, and the checks and errors of its compiler."""

    optionals: bool = since(28)  # optional types: `a.?b`, `optional.of(a)`
    compares_types: bool = since(28)  # int, uint and double compare with one another
    validated: bool = since(29)  # literals of durations, timestamps, patterns and formats when compiled
    searches_beyond: bool = since(32)  # indexOf and lastIndexOf take offsets beyond a text's end
    keywords: bool = since(31)  # fields named like reserved words can be selected without escaping
    shows_result_type: bool = since(31)  # errors of a wrong result type: "but got int"
