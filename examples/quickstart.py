"""A bandit in one process: `python examples/quickstart.py`.

The visitors of a simulated shop are dictionaries. The bandit chooses a banner for each visitor and learns from clicks.
At the end it is saved and loaded. Needs `pip install lim2`.
"""

import random
import tempfile
from pathlib import Path
from typing import Any

import lim2

BANNERS = ["spring", "shoes", "gift card"]


def visitor(rng: random.Random) -> dict[str, Any]:
    return {
        "country": rng.choice(["AT", "DE", "CH"]),
        "age": rng.randint(18, 80),
        "basket": {"items": rng.randint(0, 4), "total": round(rng.expovariate(1 / 50), 2)},
        "device": rng.choice(["phone", "laptop", None]),
    }


def favourite(person: dict[str, Any]) -> str:
    """Return the banner that a visitor prefers. The bandit has to learn this."""
    return "shoes" if person["country"] == "DE" else "spring" if person["age"] < 45 else "gift card"


def main() -> None:
    rng = random.Random(0)
    bandit = lim2.Bandit(arms=BANNERS, seed=0)
    clicks = []
    for _ in range(1000):
        person = visitor(rng)
        decision = bandit.decide(person)
        clicked = rng.random() < (0.6 if decision.arm == favourite(person) else 0.2)
        bandit.update(decision, reward=float(clicked))
        clicks.append(clicked)
    for start in (0, 250, 500, 750):
        print(f"visitors {start:>3} to {start + 250:>4}: {sum(clicks[start : start + 250]) / 250:.2f} clicks each")
    print("a random banner gets 0.33, the right one 0.60\n")

    for country, age in (("DE", 25), ("AT", 25), ("AT", 70)):
        person = {"country": country, "age": age, "basket": {"items": 1, "total": 40.0}, "device": "phone"}
        print(f"{country}, {age} years:", bandit.decide(person, exploit=True).arm)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bandit.lim2"
        bandit.save(path)
        size, rounds = path.stat().st_size / 1000, lim2.load(path).rounds
        print(f"\nsaved in {size:.0f} kB; the loaded bandit has learned {rounds} rewards")


if __name__ == "__main__":
    main()
