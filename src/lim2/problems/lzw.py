"""Unpacking of `.Z` files, in which UCI keeps Statlog and for which Python has no module."""

from __future__ import annotations

MAGIC = b"\x1f\x9d"


def unpacked(data: bytes) -> bytes:
    """Return the content of a `.Z` file, as written by the program `compress`.

    Examples
    --------
    >>> unpacked(bytes.fromhex("1f9d9061c40404"))
    b'abab'
    """
    if data[:2] != MAGIC or len(data) < 3:
        raise ValueError("not a .Z file: it does not start with 1f 9d")
    max_bits, reuse = data[2] & 0x1F, bool(data[2] & 0x80)
    if not 9 <= max_bits <= 16:
        raise ValueError(f"a .Z file with codes of {max_bits} bits, expected 9 to 16")
    first_free = 257 if reuse else 256  # 256 means: forget everything
    table = [bytes([byte]) for byte in range(256)] + [b""] * (first_free - 256)
    out: list[bytes] = []
    width, previous = 9, b""
    position = group = 3  # codes come in groups of eight; a change of width starts a new group
    buffered = bits = 0
    while True:
        if len(table) > (1 << width) - 1 and width < max_bits:
            position, buffered, bits = _next_group(position, group, width, bits), 0, 0
            width, group = width + 1, position
        while bits < width and position < len(data):
            buffered |= data[position] << bits
            bits += 8
            position += 1
        if bits < width:
            return b"".join(out)
        code = buffered & ((1 << width) - 1)
        buffered >>= width
        bits -= width
        if code == 256 and reuse:
            position, buffered, bits = _next_group(position, group, width, bits), 0, 0
            width, group, previous = 9, position, b""
            del table[first_free:]
            continue
        if code < len(table):
            entry = table[code]
        elif code == len(table) and previous:
            entry = previous + previous[:1]
        else:
            raise ValueError(f"a damaged .Z file: code {code} before it is defined")
        out.append(entry)
        if previous and len(table) < 1 << max_bits:
            table.append(previous + entry[:1])
        previous = entry


def _next_group(position: int, group: int, width: int, bits: int) -> int:
    """Return the end of the group of eight codes that contains the last code read."""
    used = position - group - bits // 8
    return group + -(-used // width) * width
