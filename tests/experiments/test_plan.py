from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from experiments.helpers import AGENTS

import lim2
from lim2.experiments.benchmark import planned
from lim2.experiments.names import PlanError, Spec, agent_named, problem_named, table
from lim2.experiments.plan import Plan, Run, canonical, rounds_of
from lim2.experiments.suite import parsed_settings, read_suite


def plan_of(problems: list[str], agents: list[str], **options: object) -> Plan:
    return planned(problems, agents, **{"rounds": 10, "runs": 2, **options})  # type: ignore[arg-type]


def test_all_agents_of_a_seed_see_the_same_draw_and_uniform_is_added() -> None:
    plan = plan_of(["wheel", "linear"], ["LiM2", "LinearTS"], seed=7)
    assert len(plan) == len(list(plan)) == 2 * 3 * 2
    by_seed = {seed: [(r.problem.label, r.agent.label) for r in plan if r.seed == seed] for seed in (7, 8)}
    assert by_seed[7] == by_seed[8]
    assert [a for _, a in by_seed[7]] == ["LiM2", "LinearTS", "Uniform"] * 2
    assert len(plan_of(["wheel"], ["Uniform", "LiM2"]).agents) == 2


def test_key_tells_apart_what_decides_and_nothing_else() -> None:
    wheel, agent = Spec("wheel", "wheel"), Spec("LiM2", "LiM2")
    run = Run(wheel, agent, 100, 0)
    same = [
        Run(Spec("another label", "wheel"), Spec("mine", "LiM2"), 100, 0),
        Run(Spec("wheel", "wheel", {}), Spec("LiM2", "LiM2", {}), 100, 0),
    ]
    assert {other.key for other in same} == {run.key}
    others = [
        Run(Spec("wheel", "wheel", {"delta": 0.5}), agent, 100, 0),
        Run(wheel, Spec("LiM2", "LiM2", {"hidden": [20]}), 100, 0),
        Run(wheel, Spec("LiM2", "LiM2", fingerprint="x"), 100, 0),
        Run(wheel, agent, 101, 0),
        Run(wheel, agent, 100, 1),
    ]
    assert len({run.key, *(other.key for other in others)}) == 6
    tuples, lists = (Run(wheel, Spec("LiM2", "LiM2", {"hidden": h}), 100, 0) for h in ((20, 10), [20, 10]))
    assert tuples.key == lists.key


def test_a_version_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def key() -> str:
        return Run(Spec("wheel", "wheel"), Spec("LiM2", "LiM2"), 100, 0).key

    before = key()
    monkeypatch.setattr(lim2, "__version__", "9.9.9")  # a release alone makes no run obsolete
    assert key() == before
    monkeypatch.setattr("lim2.experiments.plan.FORMAT", 9)
    assert key() != before


def test_canonical_text_of_numbers_and_objects() -> None:
    assert canonical({"x": np.float64(0.5), "y": np.arange(2)}) == '{"x":0.5,"y":[0,1]}'
    assert canonical({"x": Path("a")}).startswith('{"x":{"repr":"')
    with pytest.raises(PlanError, match="has no stable repr"):
        canonical({"x": object()})


@pytest.mark.parametrize(
    ("problems", "agents", "options", "message"),
    [
        (["wheel"], ["LiM"], {}, "there is no agent 'LiM'; did you mean 'LiM2'"),
        (["wheel"], ["neuralinear-naiv"], {}, "did you mean 'NeuralLinearNaive'"),
        (["weel"], ["LiM2"], {}, "there is no problem 'weel'; did you mean 'wheel'"),
        (["wheel"], ["LiM2"], {"settings": {"LiM2": {"hiden": 1}}}, "no setting 'hiden'; did you mean 'hidden'"),
        (["wheel"], ["LiM2"], {"settings": {"wheel": {"dleta": 1}}}, "no setting 'dleta'; did you mean 'delta'"),
        (["wheel"], ["LiM2"], {"settings": {"LinearTS": {"a0": 1}}}, "which is not in the plan"),
        (["wheel"], ["LiM2", "lim2"], {}, "two agents have the name 'LiM2'"),
        ([], ["LiM2"], {}, "no problem to run"),
        (["wheel"], ["LiM2"], {"runs": 0}, "runs must be at least 1"),
        (["wheel"], ["LiM2"], {"rounds": 0}, "rounds must be at least 1"),
        (["wheel"], ["no_such_module_here:Agent"], {}, "there is no module 'no_such_module_here'"),
        (["wheel"], ["json:Agent"], {}, "module 'json' has no 'Agent'"),
        (["wheel"], ["math:pi"], {}, "a class, or a function"),
        (["wheel"], ["vw:squarecd"], {}, "did you mean 'vw:squarecb'"),
    ],
)
def test_what_cannot_be_run_is_said(
    problems: list[str], agents: list[str], options: dict[str, object], message: str
) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_of(problems, agents, **options)


def test_names_of_classes_and_any_case() -> None:
    assert agent_named("neurallinearnaive").source == "NeuralLinearNaive"
    assert problem_named("WHEEL").source == "wheel"
    settings = {"lim2": {"hidden": [3]}}
    assert plan_of(["wheel"], ["LiM2"], settings=settings).agents[0].settings == {"hidden": [3]}


def test_rounds_of_each_problem() -> None:
    financial = problem_named("financial")
    assert rounds_of(financial, None) == 3713
    assert rounds_of(financial, 5000) == 3713  # all it has
    assert rounds_of(problem_named("wheel"), 12345) == 12345


def test_edited_code_of_an_outside_agent_is_another_agent(outside: Path) -> None:
    before = agent_named("outside_agents:Cycle")
    assert (before.label, before.source) == ("Cycle", "outside_agents:Cycle")
    (outside / "outside_agents.py").write_text(
        AGENTS.replace("self.last, 0", "self.last, 1").replace("% self.n_arms", "// self.n_arms")
    )
    assert agent_named("outside_agents:Cycle").fingerprint != before.fingerprint


def test_a_table_is_known_by_its_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in (first, second):
        path.write_text("x,y\n1,a\n2,b\n")
    keys = {Run(table(path, "y"), Spec("LiM2", "LiM2"), "all", 0).key for path in (first, second)}
    assert len(keys) == 1
    second.write_text("x,y\n1,a\n3,b\n")
    assert Run(table(second, "y"), Spec("LiM2", "LiM2"), "all", 0).key not in keys
    with pytest.raises(PlanError, match="there is no file"):
        table(tmp_path / "c.csv", "y")


def test_settings_of_the_command_line() -> None:
    words = ["LiM2.intercept=true", "LiM2.buffer=none", "pkg.mod:Agent.rate=1e-3", "x.word=a=b"]
    assert parsed_settings(words) == {
        "LiM2": {"intercept": True, "buffer": None},
        "pkg.mod:Agent": {"rate": 0.001},
        "x": {"word": "a=b"},
    }
    for wrong in ("hidden=3", "LiM2.hidden", "=3", "LiM2.=3"):
        with pytest.raises(PlanError, match=r"expected NAME\.setting=value"):
            parsed_settings([wrong])


def test_a_plan_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("x,y\n1,a\n2,b\n")
    path = tmp_path / "suite.toml"
    path.write_text("""
problems = ["hard", "mine"]
agents = ["LiM2", "wide"]
rounds = 50
[variants.wide]
of = "lim2"
hidden = [100, 50]
[variants.hard]
of = "wheel"
delta = 0.99
[variants.mine]
csv = "own.csv"
label = "y"
""")
    plan = read_suite(path)
    assert plan.rounds == 50
    assert plan.agent("wide") == Spec("wide", "LiM2", {"hidden": [100, 50]})
    assert plan.problems_of(["hard"])[0] == Spec("hard", "wheel", {"delta": 0.99})
    assert plan.problems_of(["mine"])[0].settings == {"label": "y"}
    assert plan.problems_of(["mine"])[0].label == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds = ", "is not TOML"),
        ("ruonds = 3", "unknown entry 'ruonds'; did you mean 'rounds'"),
        ('rounds = "many"', "rounds must be a whole number"),
        ('agents = "LiM2"', "agents must be a list of names"),
        ("variants = 3", "variants must be tables"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    with pytest.raises(PlanError, match=re.escape(message)):
        read_suite(path)
    with pytest.raises(PlanError, match="cannot be read"):
        read_suite(tmp_path / "none.toml")
    path.write_text("[variants.wide]\nhidden = [3]\n[variants.mine]\ncsv = 'x.csv'")
    with pytest.raises(PlanError, match="needs the entry"):
        read_suite(path).agent("wide")
    with pytest.raises(PlanError, match="has a csv but no label"):
        read_suite(path).problems_of(["mine"])
