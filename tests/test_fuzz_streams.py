"""The generators that know the formats: a fixed sample of what `benchmarks.fuzz_streams` tries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.fuzz_streams import Checkpoints, Messages, Tally


@pytest.mark.parametrize("name", ["messages", "checkpoints"])
def test_whatever_comes_is_read_or_refused(name: str, tmp_path: Path) -> None:
    target = Messages() if name == "messages" else Checkpoints(tmp_path)
    tally = Tally()
    for seed in range(40):
        target.case(np.random.default_rng(seed), seed, tally)
    assert tally.examples == []
    assert tally.accepted > 0
