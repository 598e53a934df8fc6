"""All bandits of the service: a folder each. The folders are the truth; every process opens what it finds."""

import asyncio
import shutil
import threading
from pathlib import Path

from lim2.serve import spec as specs
from lim2.serve.config import Config
from lim2.serve.errors import ApiError, not_found
from lim2.serve.hosted import Hosted, new_log
from lim2.serve.spec import BanditSpec, PersonalizerSettings, Stored

ALONE, SHARED = 10.0, 1.0  # seconds between models that are published: to restart from, and for other processes
PERSONALIZER = "personalizer"  # the bandit behind Personalizer's endpoints


class Registry:
    """The bandits that this process has open.

    Parameters
    ----------
    config
        Of the service.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.folder = Path(config.data) / "bandits"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.opened: dict[str, Hosted] = {}
        self._opening = threading.Lock()
        self._started = False
        self._ensure_personalizer()
        for name in self.names():
            self._opened(name)
        self._started = True

    async def get(self, name: str) -> Hosted:
        """Return a bandit; an ApiError if there is none.

        Parameters
        ----------
        name
            Of the bandit.
        """
        found = self.opened.get(name)
        return found if found is not None else await asyncio.to_thread(self._opened, specs.checked_name(name))

    @property
    def open(self) -> list[Hosted]:
        """The bandits that are open."""
        return list(self.opened.values())

    def names(self) -> list[str]:
        """Return the names of all bandits, of this process or another."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{specs.FILE}"))

    def create(self, name: str, spec: BanditSpec, personalizer: PersonalizerSettings | None = None) -> bool:
        """Make a bandit; return False if the very same is there already, an ApiError if another one has the name.

        Parameters
        ----------
        name
            Of the bandit.
        spec
            What it is.
        personalizer
            For the one behind Personalizer's endpoints.
        """
        folder = self.folder / specs.checked_name(name)
        specs.made(spec)  # what cannot be made is refused before anything is written
        with specs.exclusive(self.folder):
            if (folder / specs.FILE).exists():
                if specs.read(folder).spec == spec:
                    return False
                message = f"there is a bandit {name!r} with another description: delete it first, or take another name"
                raise ApiError(409, "InvalidRequest", message, "name")
            shutil.rmtree(folder, ignore_errors=True)  # what a crash left of an unfinished one
            folder.mkdir()
            stored = Stored(spec=spec, created=specs.now(), personalizer=personalizer)
            try:
                new_log(folder / stored.log, stored, self.config.synchronous).close()
            except ValueError as error:
                shutil.rmtree(folder)
                raise ApiError(400, "BadRequest", str(error), "spec") from error
            specs.write(folder, stored)
        self._opened(name)
        return True

    def delete(self, name: str) -> None:
        """Remove a bandit and all that it has logged and learned.

        Parameters
        ----------
        name
            Of the bandit.
        """
        if name == PERSONALIZER:
            raise ApiError(409, "OperationNotAllowed", "Personalizer's endpoints need this bandit; reset its model")
        folder = self.folder / specs.checked_name(name)
        with specs.exclusive(self.folder):
            if not (folder / specs.FILE).exists():
                raise not_found(f"there is no bandit {name!r}")
            (folder / specs.FILE).unlink()  # from now on no process opens it
            self.drop(name)
            shutil.rmtree(folder, ignore_errors=True)

    def drop(self, name: str) -> None:
        """Let go of a bandit, here only.

        Parameters
        ----------
        name
            Of the bandit.
        """
        found = self.opened.pop(name, None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """Let go of all bandits."""
        for name in list(self.opened):
            self.drop(name)

    def _opened(self, name: str) -> Hosted:
        with self._opening:
            if name in self.opened:
                return self.opened[name]
            folder = self.folder / name
            if not (folder / specs.FILE).exists():
                raise not_found(f"there is no bandit {name!r}: PUT /v1/bandits/{name} makes one")
            own = self.config
            made = Hosted(
                name,
                folder,
                synchronous=own.synchronous,
                learns=own.learn,
                publish_every=ALONE if own.workers == 1 and own.learn else SHARED,
            )
            made.caught_up = self._started  # what is made later has nothing to catch up with
            self.opened[name] = made
            return made

    def _ensure_personalizer(self) -> None:
        if (self.folder / PERSONALIZER / specs.FILE).exists():
            return
        own = self.config.personalizer
        days = own.log_retention_days
        spec = BanditSpec(
            algorithm=own.algorithm,
            exploration=own.exploration,
            expire_after=own.reward_wait_time,
            default_reward=own.default_reward,
            aggregate={"earliest": "first", "sum": "sum"}[own.reward_aggregation],  # type: ignore[arg-type]
            keep_days=None if days == -1 else float(max(days, 1)),
            seed=own.seed,
        )
        settings = PersonalizerSettings(policy_arguments=f"--algorithm {own.algorithm}", log_retention_days=days)
        self.create(PERSONALIZER, spec, settings)
