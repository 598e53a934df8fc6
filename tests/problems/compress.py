"""What the program `compress` does, for tests: Python cannot write .Z files."""

from __future__ import annotations


def compressed(data: bytes, max_bits: int = 16) -> bytes:
    """Return a .Z file: codes of 9 bits and more, in groups of eight that a change of width fills up."""
    table = {bytes([byte]): byte for byte in range(256)}
    free, width = 257, 9
    out = bytearray(b"\x1f\x9d") + bytes([0x80 | max_bits])
    group: list[int] = []

    def flush(*, whole: bool) -> None:
        nonlocal group
        bits = sum(code << (i * width) for i, code in enumerate(group))
        size = width if whole else -(-len(group) * width // 8)
        out.extend(bits.to_bytes(size, "little"))
        group = []

    def put(code: int) -> None:
        group.append(code)
        if len(group) == 8:
            flush(whole=True)

    word = b""
    for i in range(len(data)):
        longer = word + data[i : i + 1]
        if longer in table:
            word = longer
            continue
        put(table[word])
        # The reader of the file is one entry behind, so the width changes when it has caught up.
        if free < 1 << max_bits:
            table[longer] = free
            free += 1
            if free - 1 > (1 << width) - 1 and width < max_bits:
                if group:
                    flush(whole=True)
                width += 1
        word = data[i : i + 1]
    if word:
        put(table[word])
    if group:
        flush(whole=False)
    return bytes(out)
