"""Docstrings of public classes and functions have the sections and the form of numpydoc."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import is_dataclass

import pytest
from numpydoc.validate import validate

import outcode
from test_site import listed

#: Codes of numpydoc that are not asked for, and why.
IGNORED = {
    "SA01": "related objects are linked in the text where they matter",
    "ES01": "one sentence is enough where it says everything",
}
#: The same for frozen dataclasses.
IGNORED_OF_RESULTS = {"EX01": "the example is that of the function that returns it"}


def public():
    """Return every class and function of the reference or of an ``__all__``, by its full name."""
    names = {name for name in listed() if name.startswith("outcode.")}
    for name in outcode.__all__:
        names |= {f"outcode.{name}.{n}" for n in getattr(getattr(outcode, name), "__all__", ())}
    things = [found(*name.rsplit(".", 1)) for name in names]
    return {
        f"{thing.__module__}.{thing.__qualname__}": thing
        for thing in things
        if inspect.isclass(thing) or inspect.isfunction(thing)
    }


def found(module, name):
    short = module.removeprefix("outcode.")
    home = getattr(outcode, short) if short in outcode.__all__ else importlib.import_module(module)
    return getattr(home, name)


PUBLIC = public()


def ignored(thing):
    result = is_dataclass(thing) and thing.__dataclass_params__.frozen
    return IGNORED | IGNORED_OF_RESULTS if result else IGNORED


def test_the_public_objects_are_found():
    assert {"outcode.classifier.OutputCodeClassifier", "outcode.metrics.error"} <= PUBLIC.keys()
    assert all(name.startswith("outcode.") for name in PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_docstring_is_complete(name):
    errors = validate(name)["errors"]
    assert [error for error in errors if error[0] not in ignored(PUBLIC[name])] == []
