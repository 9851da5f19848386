"""The family's tests are quiet: a generator reports when it is done with, which may be after pytest
has closed its streams."""

import logging

import pytest


@pytest.fixture(autouse=True, scope="session")
def _quiet_reports():
    logging.getLogger("fairseq_hrt.jacobi.generator").setLevel(logging.WARNING)
