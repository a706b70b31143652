"""The sample documents in the owner's tenant."""

import pytest

from runs.access import Actor
from runs.documents.services import load_samples


@pytest.fixture
def library(owner: Actor) -> Actor:
    load_samples(owner)
    return owner
