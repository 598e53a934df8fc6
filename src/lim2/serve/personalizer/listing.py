"""Lists of 2022: which entries are wanted, and which of them are on a page."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta

from lim2.serve.errors import bad_request, shortened

Count = Annotated[int, Meta(ge=1, le=2147483647)]
PAGE = 100  # entries
EXAMPLE = "metadata=evaluationType eq 'Manual'"  # as Personalizer's clients describe it
_COMPARISON = r"(\w+) +(eq|ne) +'((?:[^']|'')*)'"
_FILTER = re.compile(rf" *(?:metadata *= *)?({_COMPARISON}(?: +and +{_COMPARISON})*) *")


class Listing(msgspec.Struct):
    """Which part of a list is wanted."""

    filter: Annotated[str, Meta(max_length=4096)] | None = None
    top: Count | None = None
    skip: Annotated[int, Meta(ge=0, le=2147483647)] = 0
    maxpagesize: Count = PAGE


def page(found: Sequence[Any], query: Listing, kind: Any, path: str) -> tuple[list[Any], str | None]:
    """Return a page of a list in its short form, and the link to the next page.

    Parameters
    ----------
    found
        The list.
    query
        What is wanted of it.
    kind
        The short form.
    path
        Path of the list, for the link.
    """
    names = [field.name for field in msgspec.structs.fields(kind)]
    every = [kind(**{name: getattr(job, name) for name in names}) for job in found]
    if query.filter is not None:
        every = list(filter(condition(query.filter, kind), every))
    last = len(every) if query.top is None else min(query.skip + query.top, len(every))
    end = min(query.skip + query.maxpagesize, last)
    if end >= last:
        return every[query.skip : end], None
    rest = {"api-version": "2022-09-01-preview", "filter": query.filter, "skip": end, "maxpagesize": query.maxpagesize}
    rest["top"] = None if query.top is None else query.skip + query.top - end
    sent = urlencode({key: value for key, value in rest.items() if value is not None}, quote_via=quote)
    # Relative, as the clients join it to the address of the service, and browsers to that of the list.
    return every[query.skip : end], f"{path}?{sent}"


def condition(text: str, kind: Any) -> Callable[[Any], bool]:
    """Return whether an entry fulfils a filter; an ApiError if the filter cannot be understood.

    Parameters
    ----------
    text
        Comparisons such as ``status eq 'Failed'``, joined by ``and``. A quote within a text is written twice.
    kind
        The type of the entries.

    Examples
    --------
    >>> class Job(msgspec.Struct, rename="camel"):
    ...     name: str
    ...     evaluation_type: str = "Manual"
    >>> manual = condition("metadata=evaluationType eq 'Manual' and name ne 'Jo''s'", Job)
    >>> manual(Job("Ann's")), manual(Job("Jo's"))
    (True, False)
    """
    whole = _FILTER.fullmatch(text)
    if whole is None:
        message = f"filter must be comparisons such as {EXAMPLE}, joined by and; got {shortened(text)}"
        raise bad_request(message, "filter")
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    wanted = []
    for key, relation, value in re.findall(_COMPARISON, whole[1]):
        if key not in fields:
            raise bad_request(f"filter has the unknown name {shortened(key)}: use {', '.join(fields)}", "filter")
        wanted.append((fields[key], relation == "eq", value.replace("''", "'")))
    return lambda entry: all((getattr(entry, name) == value) is equal for name, equal, value in wanted)
