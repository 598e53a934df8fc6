"""The kept results: a part of the repository, and not of a source distribution."""

from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "docs" / "results"
with_results = pytest.mark.skipif(not RESULTS.exists(), reason="the kept results are not part of a source distribution")
