"""Extensions of griffe, for `make docs`: examples are shown as code, and functions with the options they accept.

Griffe knows the examples of a section "Examples". One without that heading, as short docstrings have it, would become a
quotation, because Markdown reads `>>>` as one. A function that `accepts` a class of options has its fields as
parameters, which griffe does not see, because it reads the source.
"""

import re
from typing import Any

from griffe import DataclassesExtension, Extension, Function, Module, Object, Parameters

EXAMPLE = re.compile(r"(?m)^(>>> .*(?:\n.+)*)")
SECTION = re.compile(r"(?m)^Examples\n-+$")


def fenced(text: str) -> str:
    """The text of a docstring with its examples as fenced code, except those of a section "Examples"."""
    section = SECTION.search(text)
    end = section.start() if section else len(text)
    return EXAMPLE.sub(r"```pycon\n\1\n```", text[:end]) + text[end:]


class FencedExamples(Extension):
    """Rewrites docstrings when griffe has read them."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


class AcceptedOptions(Extension):
    """Gives a function the parameters of the class in its decorator `accepts`."""

    def __init__(self) -> None:
        self.found: list[tuple[Function, str]] = []

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        for decorator in func.decorators:
            if found := re.fullmatch(r"accepts\((\w+)\)", str(decorator.value)):
                self.found.append((func, found[1]))

    def on_package(self, *, pkg: Module, **more: Any) -> None:
        DataclassesExtension().on_package(pkg=pkg, **more)  # griffe's own turn, which finds the fields, comes later
        for function, name in self.found:
            _self, *options = function.module[name].final_target.parameters
            function.parameters = Parameters(next(iter(function.parameters)), *options)
