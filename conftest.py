"""What holds for all tests: one thread, and no PyTorch where it is not installed."""

import os
from importlib.util import find_spec

# Several workers with several threads each wait for one another most of the time. PyTorch reads this when it is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Doctests of modules that import PyTorch
collect_ignore_glob = [] if find_spec("torch") else ["src/lim2/representation/t*.py"]
