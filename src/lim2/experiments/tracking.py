"""Results in a tracking service: a run of MLflow for each (problem, agent)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from lim2.experiments.names import PlanError
from lim2.experiments.plan import canonical

if TYPE_CHECKING:
    from lim2.experiments.benchmark import Results
    from lim2.experiments.summary import Row

KINDS = ("mlflow",)
DIGEST = "lim2.digest"  # the tag by which what is logged is found again
STEPS = ("reward", "regret", "optimal", "seconds")  # curves, over rounds
MOST = 1000  # metrics that MLflow takes at once


def tracker(where: str | None) -> Callable[[Results], None]:
    """Return a function that logs results; without a target it does nothing.

    Parameters
    ----------
    where
        ``"mlflow:"`` and a folder or a tracking URI, such as ``"mlflow:mlruns"``, ``"mlflow:http://localhost:5000"``
        or ``"mlflow:sqlite:///mlflow.db"``.
    """
    if where is None:
        return lambda _: None
    kind, sign, place = where.partition(":")
    if kind not in KINDS or not sign or not place:
        raise PlanError(
            f"--log-to must be mlflow: and a folder or a tracking URI, such as mlflow:mlruns, not {where!r}"
        )
    return _mlflow(place)


def _mlflow(place: str) -> Callable[[Results], None]:
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError as error:
        raise PlanError(f"--log-to mlflow:... needs {error.name}: pip install 'lim2[mlflow]'") from error
    uri = place
    if "://" not in place:
        # MLflow keeps folders for those who ask for them; naming one is asking.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = Path(place).resolve().as_uri()
    try:
        client = MlflowClient(tracking_uri=uri)
    except (MlflowException, ImportError) as error:
        raise PlanError(f"MLflow cannot open {place!r}: {error}") from error

    def log(results: Results) -> None:
        try:
            _log(client, results)
        except MlflowException as error:
            raise PlanError(f"MLflow at {place!r} did not take the results: {error}") from error

    return log


def _log(client: Any, results: Results) -> None:
    """Log every (problem, agent) once: what has not changed is left, what has takes the place of the earlier."""
    name = f"lim2 {results.folder.resolve().name}"
    found = client.get_experiment_by_name(name)
    experiment = found.experiment_id if found else client.create_experiment(name)
    there = {run.data.tags.get(DIGEST): run for run in _runs(client, experiment)}
    wanted = {_digest(results, row): row for row in results.rows}
    known = {(run.data.params.get("problem"), run.data.params.get("agent")): digest for digest, run in there.items()}
    for digest, row in wanted.items():
        if digest in there:
            continue
        earlier = known.get((row["problem"], row["agent"]))
        if earlier in there:
            client.delete_run(there[earlier].info.run_id)
        _log_row(client, experiment, digest, row, _group(results, row))


def _runs(client: Any, experiment: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_runs([experiment], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def _group(results: Results, row: Row) -> pl.DataFrame:
    same = (pl.col("problem") == row["problem"]) & (pl.col("agent") == row["agent"])
    return results.runs.filter(same).sort("seed")


def _digest(results: Results, row: Row) -> str:
    """Identify what is logged of a (problem, agent): the runs behind it and the numbers made of them."""
    keys = _group(results, row)["key"].to_list()
    return hashlib.sha256(canonical([keys, dict(row)]).encode()).hexdigest()[:16]


def _log_row(client: Any, experiment: str, digest: str, row: Row, group: pl.DataFrame) -> None:
    from mlflow.entities import Metric, Param, RunTag

    first = group.row(0, named=True)
    tags = {DIGEST: digest, "lim2.version": first["version"], "lim2.code": first["code"]}
    started = int(group["started"].min().timestamp() * 1000)  # type: ignore[union-attr]  # they are times
    run = client.create_run(
        experiment, start_time=started, tags=tags, run_name=f"{row['problem']} / {row['agent']}"
    ).info.run_id
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    values = [Metric(name, float(value), started, 0) for name, value in numbers.items()]
    for name in STEPS:
        curves = group[f"curve_{name}"].drop_nulls().to_list()
        rounds = first["curve_round"] or []
        if len(curves) != len(group) or any(len(curve) != len(rounds) for curve in curves):
            continue
        for at, reached in zip(rounds, zip(*curves, strict=True), strict=True):
            values.append(Metric(f"curve_{name}", float(sum(reached)) / len(reached), started, at))
    for start in range(0, len(values), MOST):
        client.log_batch(run, metrics=values[start : start + MOST])
    client.log_batch(run, params=[Param(name, text[:5900]) for name, text in _parameters(row, first, group).items()],
                     tags=[RunTag("mlflow.note.content", _note(row))])  # fmt: skip
    client.set_terminated(run)


def _parameters(row: Row, first: dict[str, Any], group: pl.DataFrame) -> dict[str, str]:
    settings = {
        f"{kind}.{key}": json.dumps(value) if not isinstance(value, str) else value
        for kind in ("agent", "problem")
        for key, value in json.loads(first[f"{kind}_settings"]).items()
    }
    return {
        "problem": row["problem"],
        "problem_source": first["problem_source"],
        "agent": row["agent"],
        "agent_source": first["agent_source"],
        "rounds": str(row["rounds"]),
        "seeds": ",".join(map(str, group["seed"])),
        "delay": str(row.get("delay", 0)),
        "batch": str(row.get("batch", 1)),
        **settings,
    }


def _note(row: Row) -> str:
    return f"{row['agent']} on {row['problem']}: means over {row['runs']} runs of `lim2 bench`."
