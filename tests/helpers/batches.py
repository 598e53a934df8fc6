"""The sizes of automatic batches, as the documentation states them."""


def ends_of_batches(n: int) -> list[int]:
    """Return where each batch of n rewards ends: an eighth of the rounds so far, at least 1 and at most 256."""
    ends: list[int] = []
    start = 0
    while start < n:
        start = min(start + min(max(start // 8, 1), 256), n)
        ends.append(start)
    return ends
