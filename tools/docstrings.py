"""An extension of griffe: docstrings of the library, which have Sphinx's roles, are shown as Markdown."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
PAGE = re.compile(r"`{0,2}\bdocs/([\w/-]+)\.md`{0,2}")


def as_markdown(text: str) -> str:
    """Return a docstring with code in place of roles, and links in place of pages; all references are in one folder.

    Examples
    --------
    >>> as_markdown("See :func:`lim2.load` and ``docs/reference/file-format.md``.")
    'See `lim2.load` and [docs/reference/file-format.md](../reference/file-format.html).'
    """
    return PAGE.sub(r"[docs/\1.md](../\1.html)", ROLE.sub(r"`\1`", text))


SECTION = re.compile(r"^Parameters\n-+\n(?:(?!\w+\n-).*\n?)+", re.MULTILINE)
TOGETHER = re.compile(r"^(\**\w+(?:, +\**\w+)+)\n((?:(?: {4}.*)?(?:\n|$))+)", re.MULTILINE)


def separated(text: str) -> str:
    r"""Return a docstring in which parameters that are described together are described one by one.

    griffe would show all of them with the type and the default of the first.

    Examples
    --------
    >>> separated("Add.\n\nParameters\n----------\na, b\n    A number.").splitlines()[-4:]
    ['a', '    A number.', 'b', '    A number.']
    >>> separated("Add.\n\nParameters\n----------\na,     b\n    A number.").count("A number")  # a continued line
    2
    """

    def each(found: re.Match[str]) -> str:
        return "".join(f"{name}\n{found[2].rstrip()}\n" for name in re.split(r", +", found[1]))

    return SECTION.sub(lambda section: TOGETHER.sub(each, section[0] + "\n").rstrip("\n") + "\n\n", text).rstrip()


# A method that is made of a function, in the source of a class: `decide = _method(calls.decide)`. The function's first
# parameter becomes self, and its result what the request is for. A twin for coroutines says nothing new.
MADE = re.compile(r" +(\w+)(?:, \w+)? = (?:_method|_coroutine|sync_and_async)\((\w+)\.(\w+)\)")


class Shown(griffe.Extension):
    """Rewrites docstrings that have roles, and shows methods that are made of functions."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = separated(as_markdown(obj.docstring.value))

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Put in the methods that are made of functions, when everything has been read."""
        for path in ("client.client", "log.decision_log"):
            module: Any = pkg[path]
            for shown in [member for member in module.members.values() if not member.is_alias and member.is_class]:
                for number, line in enumerate(module.lines[shown.lineno : shown.endlineno], shown.lineno + 1):
                    if found := MADE.match(line):
                        where: Any = pkg.modules_collection[module.members[found[2]].target_path]
                        shown.set_member(found[1], method(where[found[3]], number))


def method(function: Any, line: int) -> griffe.Function:
    """Return a function as the method that is made of it."""
    returns = function.returns
    made = griffe.Function(
        function.name,
        lineno=line,
        endlineno=line,
        parameters=griffe.Parameters(griffe.Parameter("self"), *list(function.parameters)[1:]),
        returns=returns.slice if isinstance(returns, griffe.ExprSubscript) else returns,
    )
    own = function.docstring
    if own is not None:
        made.docstring = griffe.Docstring(
            own.value, parent=made, parser=own.parser or "numpy", parser_options=own.parser_options
        )
    return made
