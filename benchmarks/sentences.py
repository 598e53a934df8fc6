"""What README and the pages on results say: every number and every verdict is computed from the kept runs.

A function makes one passage of a page, as Markdown, from `benchmarks.kept.Kept`. `benchmarks.statements` puts them in.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from benchmarks import adaptive, past_the_paper
from benchmarks.kept import Kept
from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import listed, number, p_value
from lim2.experiments.stats import holm, paired_p, pooled_interval, pooled_p
from lim2.paper import ablation, complexity, forgetting
from lim2.paper.lines import alike, averages_of
from lim2.paper.published import AVERAGE, METHODS, RUNS
from lim2.paper.write import claim_lines, headline, links

SLOW = ("NeuralUCB", "NeuralTS")
EATS_NOTHING = 1000  # on Mushroom, of about 11,000: a reward below it is that of an agent that hardly eats


def paragraph(text: str) -> str:
    """Return a paragraph in lines of the pages' width."""
    return textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False)


NESTED = "> "  # before the text of an entry below another one


def bullets(texts: Sequence[str]) -> str:
    """Return a list in lines of the pages' width."""
    lines = []
    for text in texts:
        deep = 4 * text.startswith(NESTED)
        first, rest = " " * deep + "- ", " " * (deep + 2)
        lines.append(
            textwrap.fill(
                text.removeprefix(NESTED),
                125,
                initial_indent=first,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    return "\n".join(lines)


# README


def compared(kept: Kept) -> str:
    """Return AdaptiveTS minus its strongest rivals, problem by problem; bold is significant after Holm's correction."""
    sides = past_the_paper.judged(kept.comparisons)
    rows = [
        [_with_runs(problem, rival["pairs"]), *(_lead(sides[side].get(problem)) for side in ("own", "peers"))]
        for problem, rival in sides["own"].items()
    ]
    return "\n".join(table(["problem", "the best of the paper's methods", "the best of Vowpal Wabbit"], rows))


def _with_runs(problem: str, pairs: int) -> str:
    whole = past_the_paper.RUNS
    return problem if pairs >= whole else f"{problem} ({pairs} of {whole} runs)"


def _lead(rival: Mapping[str, Any] | None) -> str:
    if rival is None:
        return "–"
    text = f"{rival['of_span']:+.1%} ± {rival['half_of_span']:.1%}"
    shown = text if rival["verdict"] == "undecided" else f"**{text}**"
    return f"{shown} {rival['agent'].removeprefix('vw:')}"


# docs/research/results.md


def paper_table(kept: Kept) -> str:
    """Return table 1 of the paper, ours and the published scores in brackets."""
    scores = kept.sheet("table", "normalised")
    rows = []
    for dataset in scores["dataset"].unique(maintain_order=True):
        line = scores.filter(dataset=dataset)
        best, seeds = line["ours"].max(), line["seeds"][0]
        name = (
            f"**{dataset}**" if seeds is None else dataset if seeds >= RUNS else f"{dataset} ({seeds} of {RUNS} runs)"
        )
        cells = [name]
        for method in METHODS:
            ours, paper = line.filter(method=method).select("ours", "paper").row(0)
            text = "–" if ours is None else f"**{ours:.2f}**" if ours == best else f"{ours:.2f}"
            cells.append(text if paper is None else f"{text} ({paper:.2f})")
        rows.append(cells)
    caption = (
        "A row uses only the shuffles that all its methods were run on. If there are fewer than "
        f"{RUNS}, the row gives their number."
    )
    return "\n".join([*table(["", *METHODS], rows), "", paragraph(caption)])


def paper_verdict(kept: Kept) -> str:
    """Return in a sentence how many of the paper's claims are reproduced."""
    return paragraph(headline(list(kept.sections.values())))


def forever(kept: Kept) -> str:
    """Return how a round and the state of LiM2 grow."""
    sections = kept.measured("speed")["sections"]
    rows = {row["what"]: row for title, rows in sections.items() if title.startswith("For") for row in rows}
    ratio = rows["last tenth of 20,000 rounds / second tenth"]["ratio"]
    early, late = (rows[f"state after {n} rounds"]["KiB"] for n in ("5,000", "50,000"))
    return paragraph(
        f"In the last tenth of 20,000 rounds, a round of LiM2 takes {ratio} times as long as in the second tenth. Its "
        f"state takes {early} KiB after 5,000 rounds and {late} KiB after 50,000 (`make bench`)."
    )


def rivals_verdict(kept: Kept) -> str:
    """Return where AdaptiveTS stands, in some sentences."""
    return paragraph(past_the_paper.verdict(kept.comparisons))


# docs/reproduction.md


def claims(kept: Kept) -> str:
    """Return all of the paper's claims, each with links to what shows it."""
    return "\n".join([paper_verdict(kept), "", *claim_lines(kept.claims, "results/report.md")])


def criteria(kept: Kept) -> str:
    """Return what this project requires beyond the paper."""
    rows = [
        [c.text, c.word, c.evidence, links(c, "results/report.md")]
        for section in kept.sections.values()
        for c in section.criteria
    ]
    return "\n".join(table(["requirement of this project", "verdict", "evidence", "shown by"], rows, left=4))


def cells(kept: Kept) -> str:
    """Return how many cells of the raw table are the published ones."""
    raw = kept.sheet("table", "raw").filter(pl.col("verdict") != "")
    count = {word: raw.filter(verdict=word).height for word in ("same", "better", "worse")}
    own = raw.filter(~pl.col("method").is_in(SLOW))

    def named(word: str) -> str:
        found = own.filter(verdict=word).select(pl.format("{} / {}", "dataset", "method")).to_series().to_list()
        return f"the {word} ones are {listed(found)}" if found else f"none is {word}"

    averages = averages_of(kept.lines)
    return paragraph(
        f"{raw.height} cells of the raw table can be compared with the published ones: {count['same']} are the same, "
        f"{count['better']} are better and {count['worse']} are worse. Without NeuralUCB and NeuralTS, "
        f"{named('better')}, and {named('worse')}. LiM2's average normalised score is "
        f"{averages['LiM2']:.3f}; the published one is {AVERAGE['LiM2']}."
    )


def differences(kept: Kept) -> str:
    """Return what differs from the paper, a bullet each."""
    return bullets([make(kept) for make in (_gradient_bandits, _mushroom, _amazon, _census, _scania, _time, _late)])


def _gradient_bandits(kept: Kept) -> str:
    raw = kept.sheet("table", "raw").filter(pl.col("verdict") != "")

    def where(method: str, word: str) -> str:
        return listed(raw.filter(method=method, verdict=word)["dataset"].to_list() or ["no dataset"])

    words = [f"{m} is better than published on {where(m, 'better')}, and worse on {where(m, 'worse')}" for m in SLOW]
    methods = ("LiM2", "NeuralLinear", *SLOW)
    lines = alike(kept.lines, methods)
    averages = averages_of(lines, methods)
    own = [f"{m} {averages[m]:.3f}" for m in sorted(methods, key=lambda m: -averages[m])]
    return (
        f"**NeuralUCB and NeuralTS.** {words[0]}. {words[1]}. Over the {len(lines)} datasets with runs of "
        f"{listed(list(methods))}, the average scores on common shuffles are {listed(own)}. The cause of the "
        "differences is not known. The scaling of contexts matters: with the published learning rate, training "
        "diverges on standardised contexts. Here contexts are scaled to norm 1, as in the official data code."
    )


def _mushroom(kept: Kept) -> str:
    rewards = kept.line("Mushroom").rewards["NeuralUCB"]
    low = [r for r in rewards.values() if r < EATS_NOTHING]
    high = sorted(r for r in rewards.values() if r >= EATS_NOTHING)
    mean, _ = kept.line("Mushroom").published.raw["NeuralUCB"]
    others = f" The others earn {listed([number(r, 0) for r in high])}." if high else ""
    few = f" {RUNS - len(rewards)} of {RUNS} runs are missing." if len(rewards) < RUNS else ""
    return (
        f"**NeuralUCB on Mushroom** earns {number(mean, 0)} in the paper: it learns to eat nothing. Here {len(low)} of "
        f"{len(rewards)} runs earn less than {number(EATS_NOTHING, 0)}.{others}{few}"
    )


def _below(kept: Kept, title: str, methods: Sequence[str]) -> list[str]:
    cells, published = kept.line(title).cells, kept.line(title).published.raw
    shares = {m: cells[m]["reward_mean"] / published[m][0] - 1 for m in methods if m in cells}
    return [f"{m} {100 * share:+.1f}% ({cells[m]['runs']} runs)" for m, share in shares.items()]


def _amazon(kept: Kept) -> str:
    methods = [m for m in METHODS if m in kept.line("Amazon").cells]
    return (
        f"**Amazon.** Reward relative to the published one: {listed(_below(kept, 'Amazon', methods))}. The file used "
        "here is a part of the original, with fewer five-star reviews."
    )


def _census(kept: Kept) -> str:
    methods = [m for m in METHODS if m not in SLOW]
    return (
        f"**Census.** Reward relative to the published one: {listed(_below(kept, 'Census', methods))}. The file used "
        "here is a part of the original."
    )


def _scania(kept: Kept) -> str:
    line = kept.line("Scania Trucks")
    return (
        f"**Scania's normalised scores** cannot be compared: the random policy earns 4,663 in the paper and "
        f"{number(line.cells['Uniform']['reward_mean'], 0)} here. With two arms, and a reward of 1 for the right one, "
        "its expected reward is half of 5,000."
    )


def _time(kept: Kept) -> str:
    tables = kept.tables["complexity"]
    growth = {}
    for method in complexity.METHODS:
        _, micro = complexity.times(tables, method)
        middle = np.median(micro, axis=0)
        quarter = len(middle) // 4
        growth[method] = float(np.median(middle[-quarter:]) / np.median(middle[:quarter])), float(np.mean(middle))
    (own, own_mean), (full, full_mean) = growth["LiM2"], growth["NeuralLinear"]
    return (
        f"**The time per round of full memory** in the last quarter of {complexity.ROUNDS:,} rounds is {full:.2f} "
        f"times that in the first quarter (LiM2: {own:.2f} times). On average it is {full_mean / own_mean:.2f} times "
        "LiM2's. Full memory trains only every 400 rounds, and its 800 batches take far longer than recomputing the "
        "features of 60,000 contexts. Its memory, in contrast, grows without bound."
    )


def _late(kept: Kept) -> str:
    tables = kept.tables["forgetting"]

    def parts(agent: str) -> tuple[np.ndarray, np.ndarray]:
        at, instant = forgetting.regrets(tables, agent)
        whole = tables.group("statlog", agent)["regret"].to_numpy() / forgetting.ROUNDS
        return whole, instant[:, at > forgetting.ROUNDS // 2].mean(axis=1)

    (own, own_late), (full, full_late) = parts(forgetting.LIM2), parts(forgetting.FULL)
    return (
        f"**Forgetting in the second half.** Over all {forgetting.ROUNDS:,} rounds, regret per round is "
        f"{own.mean():.4f} for LiM2 and {full.mean():.4f} for full memory (p {p_value(paired_p(own, full))}). In the "
        f"second half it is {own_late.mean():.4f} and {full_late.mean():.4f} "
        f"(p {p_value(paired_p(own_late, full_late))})."
    )


def pieces(kept: Kept) -> str:
    """Return what the ablation says of each piece of LiM2."""
    tables = kept.tables["ablation"]
    every = {**ablation.VARIANTS, **ablation.COMBINATIONS}
    apart = {label: ablation.differences(tables, label) for label in every if label != ablation.PUBLISHED}
    groups = {label: list(found.values()) for label, found in apart.items()}
    corrected = dict(zip(groups, holm([pooled_p(g) for g in groups.values()]), strict=True))

    def of(label: str) -> str:
        mean, half = pooled_interval(groups[label])
        return f"{mean:+.1f} ± {half:.1f}%"

    def on(label: str) -> str:
        return listed([f"{problem.capitalize()} {d.mean():+.0f}%" for problem, d in apart[label].items()])

    def equal(label: str) -> str:
        return ablation.equivalence(groups[label])

    reward = {a: kept.tables["ablation"].row("epileptic", a) for a in (ablation.PUBLISHED, "intercept")}
    means = [number(row["reward_mean"], 0) for row in reward.values() if row is not None]
    step = ablation.STEP
    others = [label for label in ablation.VARIANTS if label.startswith("matching")]
    best = max(groups, key=lambda label: pooled_interval(groups[label])[0])
    intro = paragraph(
        f"`lim2 paper ablation` runs {len(groups)} variants of LiM2 on "
        f"{listed([p.capitalize() for p in ablation.PROBLEMS])}, {tables.rows[0]['runs']} paired runs of each. "
        "Each number below is a variant's difference from LiM2, in percent of LiM2's lead over the random policy. It "
        "is averaged over the datasets and has a 95% interval. "
        f"“Equivalent” means that two one-sided tests place the difference within {ablation.MARGIN:g}%; "
        f"{ablation.CHOSEN}."
    )
    said = [
        f"**Without the mean prior**, but with the covariance still carried over: {of('no mean prior')} "
        f"(p {p_value(corrected['no mean prior'])}, corrected for {len(groups)} variants).",
        f"**Without the projected gradient step** (“{step}”): {of(step)}, p {p_value(pooled_p(groups[step]))} "
        f"uncorrected and {p_value(corrected[step])} corrected; {equal(step)}. By dataset: {on(step)}.",
        "**With another kind of matching:**",
        *(f"{NESTED}{label}: {of(label)}, {equal(label)}" for label in others),
        f"**With an intercept:** {of('intercept')}. By dataset: {on('intercept')}. On Epileptic, LiM2 as published "
        f"earns {means[0]}; with an intercept it earns {means[1]}.",
        f"**Without recounting:** {of('no recount')}, {equal('no recount')} on average. The average "
        f"hides differences between the datasets: {on('no recount')}.",
        f"**With the noise estimated from the buffer alone:** {of('noise from the buffer')}, "
        f"{equal('noise from the buffer')}.",
        f"**With the means of all arms refreshed in each round:** {of('all means refreshed')}, "
        f"{equal('all means refreshed')}.",
        f"**The best of the {len(groups)} variants** is “{best}” with {of(best)}; the intercept alone has "
        f"{of('intercept')}. It was selected on these same runs, so its estimated lead is optimistic.",
    ]
    return f"{intro}\n\n{bullets(said)}"


def runs_short(kept: Kept) -> str:
    """Return which methods have fewer runs than the paper's, and where."""
    found: dict[tuple[int, tuple[str, ...]], list[str]] = {}  # datasets, by number of runs and methods
    for line in kept.lines:
        few: dict[int, list[str]] = {}
        for method in line.methods:
            if line.cells[method]["runs"] < RUNS:
                few.setdefault(line.cells[method]["runs"], []).append(method)
        for runs, methods in few.items():
            found.setdefault((runs, tuple(methods)), []).append(line.title)
    short = [f"{runs} of {listed(list(methods))} on {listed(titles)}" for (runs, methods), titles in found.items()]
    text = (
        f"Some methods have fewer than {RUNS} runs: {'; '.join(short)}."
        if short
        else f"Every method has {RUNS} runs on every dataset."
    )
    return paragraph(text)


# docs/past-the-paper.md


def rivals(kept: Kept) -> str:
    """Return how AdaptiveTS does next to all others: verdict and table."""
    return f"{rivals_verdict(kept)}\n\n{past_the_paper.table_of(kept.comparisons)}"


def played(kept: Kept) -> str:
    """Return how many of the shuffles each method was run on."""
    return past_the_paper.played_table(kept.comparisons)


def tuning(kept: Kept) -> str:
    """Return what was chosen for Vowpal Wabbit, by problem."""
    file = kept.past / "tuning.csv"
    if not file.exists():
        return "Nothing was tuned."
    from benchmarks.tuned import best_of

    rows = pl.read_csv(file)
    chosen = [f"{problem}: {best_of(group)}" for (problem,), group in rows.group_by("problem", maintain_order=True)]
    return paragraph(f"Settings of Vowpal Wabbit that tuning chose: {'; '.join(chosen)}.")


def suite(kept: Kept) -> str:
    """Return how AdaptiveTS does on the suite."""
    return "\n".join(adaptive.suite_table(kept.rewards("suite")))


def mechanisms(kept: Kept) -> str:
    """Return what each mechanism of AdaptiveTS earns."""
    return "\n".join(adaptive.ablation_table(kept.rewards("ablation")))


def cases(kept: Kept) -> str:
    """Return how AdaptiveTS does on problems that weaker agents fail on."""
    return "\n".join(adaptive.cases_table(kept.rewards("cases")))


def calibration(kept: Kept) -> str:
    """Return how many 90% intervals hold the truth."""
    rows = [
        [
            adaptive.named(row["agent"]),
            f"{row['mean']:.1%}",
            f"{min(row['runs']):.1%} to {max(row['runs']):.1%}",
            str(len(row["runs"])),
        ]
        for row in kept.measured("calibration")
    ]
    return "\n".join(table(["agent", "coverage of 90% intervals", "lowest to highest run", "runs"], rows))


def limits(kept: Kept) -> str:
    """Return where AdaptiveTS is not the best choice."""
    left, runs, own = kept.rewards("ablation"), kept.rewards("suite"), kept.rewards("cases")
    flat = [(p, adaptive.left_without(left, "no hidden layer", p)) for p in adaptive.SPECIAL]
    more = [f"{p} {share:.0f}%" for p, share in flat if share > 100]
    wheel = own.filter(problem="wheel", agent="AdaptiveTS")["reward"].to_numpy()
    chance = own.filter(problem="wheel", agent="Uniform")["reward"].to_numpy().mean()
    behind = []
    for problem in sorted(set(runs["problem"])):
        best, means = adaptive.best_rival(runs, problem)
        mean = adaptive.means(runs, problem)[adaptive.OURS]
        if means[best] > mean:
            behind.append(f"{problem} ({best} {means[best]:,.0f}, AdaptiveTS {mean:,.0f})")
    amazon = kept.comparisons.filter(problem="amazon", agent="LiM2").row(0, named=True)
    time = kept.measured("round_time")
    alone = next(row for row in kept.measured("calibration") if row["agent"].endswith("the network alone"))
    return bullets(
        [
            "**Noisy or linear rewards.** On some problems AdaptiveTS does better without its hidden layer. Its lead "
            f"over the random policy is then, in percent of the lead with the layer: {listed(more)}. The linear "
            "posterior takes over only when it is clearly ahead.",
            f"**Large rewards that nothing observed predicts.** On `wheel` without `reward_range` AdaptiveTS earns "
            f"{wheel.mean():,.0f} and the random policy {chance:,.0f}. {int((wheel < chance).sum())} of {len(wheel)} "
            "runs earn less than the random policy.",
            f"**The suite.** A rival earns more on {len(behind)} of the {len(set(runs['problem']))} datasets: "
            f"{'; '.join(behind)}.",
            f"**Texts.** On Amazon the difference from LiM2 is {amazon['difference']:+,.0f} ± "
            f"{amazon['half_width']:,.0f} in {amazon['pairs']} runs. If all features come from the network, as with "
            f"texts, {alone['mean']:.1%} of the 90% intervals contain the true value.",
            "**Time.** A round takes "
            + listed([f"{row['ratio']} times ({shape})" for shape, row in time.items() if "ratio" in row])
            + " as long as a round of Vowpal Wabbit with action features (`python -m benchmarks.round_time`).",
        ]
    )


Make = Callable[[Kept], str]
