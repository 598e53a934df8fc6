"""Changes of a bandit's description by clients: settings, another algorithm, an uploaded model."""

import time
from typing import Any

import msgspec

from lim2.bandit import Bandit
from lim2.loading import from_bytes
from lim2.persistence import LoadError
from lim2.serve import spec as specs
from lim2.serve.bandits import DecidingBandit
from lim2.serve.errors import bad_request, refusals
from lim2.serve.spec import START, Stored


def change(hosted: DecidingBandit, settings: dict[str, Any]) -> None:
    """Change settings; another algorithm begins a new revision, which learns the whole log."""

    def changed(stored: Stored) -> Stored:
        new = changed_settings(stored, settings)
        spec = new.spec
        specs.check_control(spec, hosted.decider.arms)
        hosted.log.configure(
            expire_after=spec.expire_after, default_reward=spec.default_reward, aggregate=spec.aggregate
        )
        return new

    with refusals("a change"):
        hosted.change(changed)


def changed_settings(stored: Stored, settings: dict[str, Any]) -> Stored:
    """Return a description with other settings; an ApiError if no bandit can have them."""
    rest, personalizer = dict(settings), stored.personalizer
    mode = rest.pop("learning_mode", None)
    if mode is not None and personalizer is None:
        raise bad_request("only the bandit behind Personalizer's endpoints has a learning_mode", "learning_mode")
    if personalizer is not None:
        mode = mode or personalizer.learning_mode
        personalizer = msgspec.structs.replace(personalizer, learning_mode=mode, edited=time.time())
    if rest.get("algorithm", stored.spec.algorithm) != stored.spec.algorithm:
        rest.setdefault("settings", {})  # those of another algorithm do not fit
    spec = msgspec.structs.replace(stored.spec, **rest)
    new = msgspec.structs.replace(stored, spec=spec, personalizer=personalizer)
    if (spec.algorithm, spec.settings) == (stored.spec.algorithm, stored.spec.settings):
        return new
    specs.made(spec)
    return msgspec.structs.replace(new, revision=stored.revision + 1, start=0, start_file=None)


def upload(hosted: DecidingBandit, content: bytes) -> None:
    """Begin a new revision with an uploaded model, which learns from later rewards."""
    try:
        model = from_bytes(content)
    except LoadError as error:
        raise bad_request(f"this is not a model of lim2: {error}", "body") from error
    arms = hosted.decider.arms
    if not isinstance(model, Bandit) or _names(model.arms) != _names(arms):
        expected = "a lim2.Bandit with items" if arms is None else f"a lim2.Bandit with the arms {list(arms)}"
        raise bad_request(f"the model must be {expected}, as GET .../snapshot returns it", "body")
    starts, replaced = hosted.catalog.documents(hosted.name, START), list[str | None]()

    def begun(stored: Stored) -> Stored:
        revision = stored.revision + 1
        replaced.append(stored.start_file)
        starts.put(f"start-{revision}.lim2", content)
        return msgspec.structs.replace(
            stored, revision=revision, start=hosted.log.position, start_file=f"start-{revision}.lim2"
        )

    with refusals("a model"):
        hosted.change(begun)
    if replaced[-1] is not None:
        starts.delete(replaced[-1])


def _names(arms: Any) -> Any:
    return None if arms is None else sorted(map(str, arms))
