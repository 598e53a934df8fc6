"""Exceptions raised anywhere inside a call: on entry of any function of the library, or at any line of a shell."""

import contextlib
import inspect
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lim2

PACKAGE = str(Path(lim2.__file__).parent)
FILES = ("agent.py", "deciding.py", "items.py", "learner.py", "shells.py", "snapshot.py")
SHELLS = {str(Path(PACKAGE, name)) for name in (*FILES, "bandit/bandit.py", "bandit/deciding.py", "bandit/rows.py")}


class InjectedError(Exception):
    """What is injected."""


def fails_at(count: int, call: Callable[[], object]) -> bool:
    """Call, and fail on entry of the count-th function of lim2 that is called; return whether there was one.

    The guard around BLAS belongs to no agent, and is left out. So are generators, which are entered once more when
    they are closed.
    """
    return _fails(count, call, _enters)


def fails_at_line(count: int, call: Callable[[], object]) -> bool:
    """Call, and fail before the count-th line that a shell executes, as an interrupt would."""
    return _fails(count, call, _steps)


def fails_in_log(count: int, call: Callable[[], object], learning: bool = False) -> bool:
    """Call, and fail as an interrupt would at its count-th chance in the log; return whether there was one.

    With ``learning``, in the agents as well.
    Python looks for signals when it enters a function of its own, and when one written in C has returned.
    """
    chances = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal chances
        enters = event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if (enters or event == "c_return") and _of_log(frame.f_code.co_filename, learning):
            chances += 1
            if chances == count:
                raise InjectedError

    sys.setprofile(profile)
    try:
        call()
    except InjectedError as error:
        kept.append(error)  # with the frames that it has passed, as a debugger would
        return True
    finally:
        sys.setprofile(None)
    return False


kept: list[InjectedError] = []


def _of_log(name: str, learning: bool) -> bool:
    folders = ("log", "bandit", *FILES) if learning else ("log",)
    return name == contextlib.__file__ or any(name.startswith(str(Path(PACKAGE) / folder)) for folder in folders)


def _enters(frame: FrameType, event: str) -> bool:
    name = frame.f_code.co_filename
    if event != "call" or not name.startswith(PACKAGE) or name.endswith("_blas.py"):
        return False
    return not frame.f_code.co_flags & inspect.CO_GENERATOR


def _steps(frame: FrameType, event: str) -> bool:
    name = frame.f_code.co_filename
    # Tracing stops at a `with` once more when it is left, where no interrupt can come before its lock is released.
    return event == "line" and name in SHELLS and "with " not in linecache.getline(name, frame.f_lineno)


def _fails(count: int, call: Callable[[], object], counts: Callable[[FrameType, str], bool]) -> bool:
    calls = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal calls
        if counts(frame, event):
            calls += 1
            if calls == count:
                raise InjectedError
        return trace if counts is _steps and frame.f_code.co_filename in SHELLS else None

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except InjectedError:
        return True
    finally:
        sys.settrace(previous)
    return False
