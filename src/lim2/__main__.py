"""The program `lim2`, also as `python -m lim2`. Without the extra `cli` it prints how to install it."""

import sys

import lim2
from lim2.extras import OF_COMMANDS, MissingExtraError, needs

WRONG = 2  # what was asked for cannot be done


def main() -> None:
    """Run the program with the arguments of the command line."""
    if sys.argv[1:] == ["--version"]:  # works with nothing installed
        from lim2._kernels import DESCRIPTION

        sys.stdout.write(f"lim2 {lim2.__version__} (kernels: {DESCRIPTION})\n")
        return
    command = sys.argv[1] if sys.argv[1:] and sys.argv[1] in OF_COMMANDS else None
    what, extra = ("the command lim2", "cli") if command is None else (f"lim2 {command}", OF_COMMANDS[command])
    try:
        with needs(what, extra):
            from lim2.cli import program

            program(*([] if command is None else [command]))(prog_name="lim2")
    except MissingExtraError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(WRONG)


if __name__ == "__main__":
    main()
