"""What holds for all tests: one thread, and no PyTorch and no psycopg where they are not installed."""

import os
from importlib.util import find_spec

# Several workers with several threads each wait for one another most of the time. PyTorch reads this when it is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Doctests of modules that import what may be missing
collect_ignore_glob = [] if find_spec("torch") else ["src/lim2/representation/t*.py"]
collect_ignore_glob += [] if find_spec("psycopg") else ["src/lim2/log/postgres/*.py"]
# No doctests, and importing Ray Serve warns
collect_ignore_glob += [f"src/lim2/serve/on_ray/{name}.py" for name in ("deploy", "replica", "routing")]
