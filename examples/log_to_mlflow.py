"""Log results of `lim2 bench` to MLflow: `python examples/log_to_mlflow.py RESULTS --to mlruns`.

Each (problem, agent) is one MLflow run with its settings, its numbers and its mean curves over rounds. The experiment
is named after the folder of the results. Without RESULTS, a small experiment is run first. Needs
`pip install 'lim2[bench]' mlflow-skinny`; `--to` also takes a tracking URI, such as http://localhost:5000.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from lim2.experiments import Store, bench

CURVES = ("reward", "regret", "optimal", "seconds")


def logged(client: MlflowClient, experiment: str, row: dict[str, Any], runs: pl.DataFrame) -> None:
    """Log the runs of one agent on one problem."""
    first = runs.row(0, named=True)
    started = int(first["started"].timestamp() * 1000)
    run = client.create_run(experiment, start_time=started, run_name=f"{row['problem']} / {row['agent']}").info.run_id
    numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
    metrics = [Metric(name, float(value), started, 0) for name, value in numbers.items()]
    for name in CURVES:
        means = np.mean(runs[f"curve_{name}"].to_list(), axis=0)
        metrics += [
            Metric(f"curve_{name}", float(mean), started, at)
            for at, mean in zip(first["curve_round"], means, strict=True)
        ]
    settings = {
        f"{kind}.{key}": value
        for kind in ("agent", "problem")
        for key, value in json.loads(first[f"{kind}_settings"]).items()
    }
    params = {"problem": row["problem"], "agent": row["agent"], "seeds": runs["seed"].to_list(), **settings}
    client.log_batch(run, metrics, [Param(name, str(value)) for name, value in params.items()])
    client.set_terminated(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, help="folder of `lim2 bench`")
    parser.add_argument("--to", default="mlruns", help="a folder, or a tracking URI")
    asked = parser.parse_args()
    folder = asked.results
    if folder is None:
        folder = bench(["wheel"], ["LinearTS"], rounds=200, runs=2, quiet=True, report=False).folder
    runs, _ = Store(folder).frames()
    rows = json.loads((folder / "summary.json").read_text())
    uri = asked.to
    if "://" not in uri:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow only opens a folder with permission
        uri = Path(uri).resolve().as_uri()
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment(f"lim2 {folder.resolve().name}")
    for row in rows:
        logged(client, experiment, row, runs.filter(problem=row["problem"], agent=row["agent"]))
    print(f"{len(rows)} runs logged to {asked.to}")


if __name__ == "__main__":
    main()
