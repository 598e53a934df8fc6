"""Extras of the package: the modules of each, and the error if one of them is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

CLI = ("typer", "rich")
DATA = ("narwhals", "polars", "pooch", "requests")

# Extra -> its modules that lim2, or what serves it, imports. Where several have a module, the first is the smallest.
EXTRAS: dict[str, tuple[str, ...]] = {
    "cli": CLI,
    "data": DATA,
    "bench": (*CLI, *DATA, "matplotlib", "jinja2", "cloudpickle"),
    "serve": (*CLI, "starlette", "uvicorn", "uvloop", "httptools", "msgspec", "prometheus_client"),
    "postgres": ("psycopg",),
    "torch": ("torch",),
    "ray": ("ray",),
    "peers": ("vowpalwabbit",),
}

# Command of the program lim2 -> the extra that it needs.
OF_COMMANDS = {
    "serve": "serve",
    "move": "serve",
    "inspect": "cli",
    "log": "cli",
    "evaluate": "cli",
    "warm-start": "cli",
    "bench": "bench",
    "report": "bench",
    "compare": "bench",
    "data": "data",
    "suite": "bench",
    "paper": "bench",
}


class MissingExtraError(ModuleNotFoundError):
    """A required extra is not installed; the message gives the command to install it."""


@contextmanager
def needs(label: str, extra: str) -> Iterator[None]:
    """Raise a MissingExtraError if a module of an extra is missing in the block or decorated function.

    Examples
    --------
    >>> with needs("a report", "bench"):
    ...     raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")
    Traceback (most recent call last):
    lim2.extras.MissingExtraError: a report needs jinja2, which is not installed: pip install 'lim2[bench]'
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        smallest = extra if module in EXTRAS[extra] else extra_of(module)
        if smallest is None:
            raise
        raise MissingExtraError(
            f"{label} needs {module}, which is not installed: pip install 'lim2[{smallest}]'", name=module
        ) from error


def check(label: str, extra: str, module: str) -> None:
    """Raise a MissingExtraError unless a module is installed, without importing it.

    Examples
    --------
    >>> check("a table", "data", "polars")
    """
    with needs(label, extra):
        if find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def extra_of(module: str) -> str | None:
    """Return the smallest extra that installs a module, or None.

    Examples
    --------
    >>> extra_of("rich"), extra_of("jinja2"), extra_of("numpy")
    ('cli', 'bench', None)
    """
    return next((extra for extra, modules in EXTRAS.items() if module in modules), None)
