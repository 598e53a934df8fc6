"""Count the lines of lim2 by package: `python -m tools.count`, or `python -m tools.count DIR` for another folder.

Lines of code are those that are left without comments, docstrings and blank lines; a statement over three lines is
three.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "lim2"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    r"""Return the number of lines with code in a file.

    >>> code_lines("'A file.'\n\nx = [\n    1,  # one\n    # two\n]\n\n\ndef f():\n    'Do nothing.'\n")
    4
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def count(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the numbers of files, lines of code and all lines, by package; modules of the folder itself are "."."""
    files, code, lines = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        package = parts[0] if len(parts) > 1 else "."
        text = path.read_text(encoding="utf-8")
        files[package] += 1
        code[package] += code_lines(text)
        lines[package] += len(text.splitlines())
    return {package: (files[package], code[package], lines[package]) for package in sorted(files)}


def main() -> None:
    """Print a line for each package, and the sums."""
    counted = count(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
    total = tuple(map(sum, zip(*counted.values(), strict=True)))
    print(f"{'package':<16}{'files':>8}{'code':>8}{'all':>8}")
    for package, (files, code, lines) in [*counted.items(), ("total", total)]:
        print(f"{package:<16}{files:>8,}{code:>8,}{lines:>8,}")


if __name__ == "__main__":
    main()
