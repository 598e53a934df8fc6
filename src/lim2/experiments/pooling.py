"""Which runs may be pooled: those that the same code made."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from lim2.experiments.code import digest_of, modules_of
from lim2.experiments.names import PlanError
from lim2.experiments.store import Store


def versions(runs: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Return the number of runs of each version of a module: by its name, then by its digest."""
    counts = _modules(runs).group_by("name", "digest").len().sort("name", "digest")
    by_name: dict[str, dict[str, int]] = {}
    for name, digest, count in counts.iter_rows():
        by_name.setdefault(name, {})[digest] = count
    return by_name


def check(runs: pl.DataFrame) -> None:
    """Raise a `PlanError` if several versions of a module made runs that would be pooled."""
    mixed = {name: digests for name, digests in versions(runs).items() if len(digests) > 1}
    if mixed:
        said = "; ".join(
            f"{name} ({', '.join(f'{digest} in {count} runs' for digest, count in digests.items())})"
            for name, digests in mixed.items()
        )
        raise PlanError(f"the runs were made by different code: {said}. Make them anew with --again, or add --pool")


def code_of(runs: pl.DataFrame) -> str:
    """Return a digest of all code that made runs; "unknown" if they do not say."""
    modules = {f"{name} {digest}": digest for name, digests in versions(runs).items() for digest in digests}
    return digest_of(modules) if modules else "unknown"


def edited(runs: pl.DataFrame) -> list[str]:
    """Return the modules of lim2 that made runs and are no longer what they were."""
    now = modules_of(name for name in versions(runs) if name.partition(".")[0] == "lim2")
    return [name for name, digests in versions(runs).items() if name in now and set(digests) != {now[name]}]


def refuse_to_mix(store: Store, files: Iterable[str]) -> None:
    """Raise a `PlanError` if new runs would be pooled with runs that other code made."""
    changed = edited(_read(store, files))
    if changed:
        raise PlanError(
            f"some runs in {store.folder} were made by other code: {', '.join(changed)} changed since. Make all anew "
            "with --again, pool them with --pool, or give another --out"
        )


def _read(store: Store, files: Iterable[str]) -> pl.DataFrame:
    paths = [path for file in files if (path := store.folder / "runs" / file).is_file()]
    frames = [pl.read_parquet(path, columns=["modules"], hive_partitioning=False) for path in paths]
    return pl.concat(frames) if frames else pl.DataFrame(schema={"modules": pl.List(pl.Struct({}))})


def _modules(runs: pl.DataFrame) -> pl.DataFrame:
    if not len(runs):
        return pl.DataFrame(schema={"name": pl.String, "digest": pl.String})
    return runs.select("modules").explode("modules").drop_nulls().unnest("modules")
