"""`python -m benchmarks.encode`: what it costs to encode one raw context, beside scikit-learn's FeatureHasher.

The same context of ten keys: four numbers, a truth value, five strings. FeatureHasher takes flat dictionaries of
strings and numbers, so that is what both are given; nested, with a time or a list, only `lim2.encoding` is measured.
CPU time, in blocks of each that take turns: the fastest block, since others on the machine can only slow it down, and
the median of the ratios of blocks that ran next to each other.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from benchmarks.timing import median_ratio
from lim2.encoding import Encoder

FLAT = {
    "country": "AT", "device": "ios", "language": "de", "category": "shoes", "campaign": "spring",
    "returning": True, "age": 31, "items": 3, "total": 80.5, "discount": 0.15,
}  # fmt: skip
JSON = {
    "country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "device": None, "at": "2026-11-16T10:00:00Z",
    "returning": True, "tags": ["new", "red"], "language": "de", "campaign": "spring",
}  # fmt: skip


def catalogue(n_items: int) -> list[dict[str, Any]]:
    """Return items with a price, a category, tags and an embedding of eight numbers."""
    rng = np.random.default_rng(0)
    return [
        {
            "price": float(rng.uniform(1, 100)),
            "category": f"category {rng.integers(10)}",
            "tags": [f"tag {tag}" for tag in rng.integers(0, 20, 2)],
            "embedding": rng.normal(size=8).tolist(),
        }
        for _ in range(n_items)
    ]


def cpu_seconds(call: Callable[[], object], repeat: int) -> float:
    """Return the CPU time of one call, averaged over a block."""
    start = time.process_time()
    for _ in range(repeat):
        call()
    return (time.process_time() - start) / repeat


def measured(blocks: int, repeat: int, n_items: int) -> dict[str, float]:
    """Time encoders that have learned, and FeatureHasher."""
    encoder, hasher, items = Encoder(), FeatureHasher(n_features=Encoder().width), catalogue(n_items)
    known = encoder.init()
    for t in range(100):
        known = encoder.observe(known, {**FLAT, "age": 20 + t, "total": 1.5 * t})
    nested = encoder.observe(encoder.init(), JSON)
    # Every event has a time of its own, and more of them come by than are cached.
    start = datetime(2026, 11, 16, tzinfo=UTC)
    ticks = itertools.cycle([(start + timedelta(seconds=t)).isoformat() for t in range(10_000)])
    event = dict(JSON)

    def encode_event() -> None:
        event["at"] = next(ticks)
        encoder.encode(nested, event)

    of_items = encoder.init()
    for item in items:
        of_items = encoder.observe(of_items, item)
    sklearn_row = {key: str(value) if isinstance(value, bool) else value for key, value in FLAT.items()}
    names = ("encode", "FeatureHasher", "encode JSON", "observe", "items one by one", "encode_many of items")
    calls = (
        (lambda: encoder.encode(known, FLAT), repeat),
        (lambda: hasher.transform([sklearn_row]).toarray(), repeat),
        (encode_event, repeat),
        (lambda: encoder.observe(known, FLAT), repeat),
        (lambda: [encoder.encode(of_items, item) for item in items], max(repeat // n_items, 1)),
        (lambda: encoder.encode_many(of_items, items), max(repeat // n_items, 1)),
    )
    rounds = [[cpu_seconds(call, times) for call, times in calls] for _ in range(blocks)]
    times = dict(zip(names, zip(*rounds, strict=True), strict=True))
    figures = {f"{name}, us": 1e6 * min(block) for name, block in times.items()}
    figures["FeatureHasher / encode"] = median_ratio(times["FeatureHasher"], times["encode"])
    figures["one by one / encode_many"] = median_ratio(times["items one by one"], times["encode_many of items"])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=500)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    arguments = parser.parse_args()
    figures = measured(arguments.blocks, arguments.repeat, arguments.items)
    for name, value in figures.items():
        print(f"{name}: {value:.2f}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
