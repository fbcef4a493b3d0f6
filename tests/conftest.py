"""Shapes and dtypes in segma's annotations are checked while the tests run, and only then."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: two workers on two cores fight otherwise

import pytest
from jaxtyping import install_import_hook

MATHS = "mixture cramer_wold objective latent density model data.views".split()
install_import_hook([f"segma.{name}" for name in MATHS], "typecheck.check")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The directory of the owners' files, for tests that need the real thing."""
    where = os.environ.get("SEGMA_DATA")
    if not where:
        pytest.skip("needs the owners' files: set SEGMA_DATA")
    return Path(where)
