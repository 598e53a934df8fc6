"""Tables of README and of the pages on results, as Markdown, from `benchmarks.kept.Kept`."""

import polars as pl

from benchmarks import adaptive, past_the_paper
from benchmarks import worlds as products
from benchmarks.kept import Kept
from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import p_value, plus_minus
from lim2.experiments.stats import holm, pooled_interval, pooled_p
from lim2.paper import ablation
from lim2.paper.published import METHODS, RUNS
from lim2.paper.run import EXPERIMENTS
from lim2.paper.write import claim_lines, links


def paper(kept: Kept) -> str:
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
            ours, published = line.filter(method=method).select("ours", "paper").row(0)
            text = "–" if ours is None else f"**{ours:.2f}**" if ours == best else f"{ours:.2f}"
            cells.append(text if published is None else f"{text} ({published:.2f})")
        rows.append(cells)
    return "\n".join(table(["", *METHODS], rows))


def artifact(kept: Kept) -> str:
    """Return what each experiment costs and gives, from its kept runs."""
    rows = []
    for name, section in kept.sections.items():
        if name == "text":
            continue  # its runs are a part of the table's
        runs = kept.tables[EXPERIMENTS[name].folder].runs
        files = [f"`tables/{sheet.name}.csv`" for sheet in section.sheets]
        files += [f"`figures/{figure.name}.svg`" for figure in section.figures]
        seconds = runs["seconds"].to_numpy()
        rows.append(
            [
                f"`lim2 paper {name}`",
                f"{runs.height:,}",
                f"{seconds.sum() / 3600:.2f}",
                f"{seconds.max() / 60:.1f}",
                ", ".join(files),
            ]
        )
    return "\n".join(table(["command", "runs", "core hours", "longest run, minutes", "gives"], rows))


def claims(kept: Kept) -> str:
    """Return all of the paper's claims, each with links to what shows it."""
    return "\n".join(claim_lines(kept.claims, "../results/report.md"))


def collapse(kept: Kept) -> str:
    """Return the rewards of diverged training, beside those of arm 0 and the published ones."""
    sheet = kept.sheet("collapse", "collapse")
    rows = []
    for title in sheet["dataset"].unique(maintain_order=True):
        line = {row["agent"]: row for row in sheet.filter(dataset=title).iter_rows(named=True)}
        cells = [title, plus_minus(line["arm 0"]["mean"], line["arm 0"]["std"], 0)]
        for method in ("NeuralUCB", "NeuralTS"):
            one = line[method]
            cells += [plus_minus(one["mean"], one["std"], 0), plus_minus(one["paper_mean"], one["paper_std"], 0)]
            cells.append(
                "–"
                if one["median_round"] is None
                else f"{one['diverged']} of {one['runs']}, {one['median_round']:,.0f}"
            )
        rows.append(cells)
    head = ["", "arm 0 always"]
    for method in ("NeuralUCB", "NeuralTS"):
        head += [f"{method}, simulated", "published", "diverged, median round"]
    return "\n".join(table(head, rows))


def criteria(kept: Kept) -> str:
    """Return what this project requires beyond the paper."""
    rows = [
        [c.text, c.word, c.evidence, links(c, "../results/report.md")]
        for section in kept.sections.values()
        for c in section.criteria
    ]
    return "\n".join(table(["requirement of this project", "verdict", "evidence", "shown by"], rows, left=4))


def pieces(kept: Kept) -> str:
    """Return what each variant of LiM2 gains or loses on average, and whether it is equivalent to LiM2."""
    every = (label for label in {**ablation.VARIANTS, **ablation.COMBINATIONS} if label != ablation.PUBLISHED)
    groups = {label: list(ablation.differences(kept.tables["ablation"], label).values()) for label in every}
    corrected = holm([pooled_p(group) for group in groups.values()])
    rows = []
    for (label, group), p in zip(groups.items(), corrected, strict=True):
        mean, half = pooled_interval(group)
        rows.append([label, f"{mean:+.1f} ± {half:.1f}%", p_value(p), ablation.equivalence(group)])
    return "\n".join(table(["variant", "difference", "p, corrected", "equivalence"], rows))


def rivals(kept: Kept) -> str:
    """Return for each problem the strongest of the paper's methods and of Vowpal Wabbit."""
    return past_the_paper.table_of(kept.comparisons)


def played(kept: Kept) -> str:
    """Return how many of the shuffles each method was run on."""
    return past_the_paper.played_table(kept.comparisons)


def tuning(kept: Kept) -> str:
    """Return what was chosen for Vowpal Wabbit, by problem."""
    from benchmarks.tuned import best_of

    groups = pl.read_csv(kept.past / "tuning.csv").group_by("problem", maintain_order=True)
    return "\n".join(table(["problem", "settings of Vowpal Wabbit"], [[str(p), best_of(g)] for (p,), g in groups], 2))


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


def worlds(kept: Kept) -> str:
    """Return AdaptiveTS in the worlds of products, against the best rival in each."""
    return products.compact(kept.measured("worlds"))
