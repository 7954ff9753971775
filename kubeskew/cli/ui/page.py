"""Puts the page together: one file, with the same styles and the same drawing as a report."""

import functools

from jinja2 import ChoiceLoader, Environment, PackageLoader


@functools.cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader("kubeskew.cli.ui"), PackageLoader("kubeskew.conformance")])
    return Environment(loader=loader, autoescape=True, trim_blocks=True)


def script() -> str:
    """Returns the page's only script, whose hash the server's policy names."""
    return "\n".join(_environment().get_template(name).render() for name in ("lanes.js", "ui.js"))


def page(title: str) -> str:
    """Returns the page."""
    return _environment().get_template("ui.html").render(title=title, script=script())
