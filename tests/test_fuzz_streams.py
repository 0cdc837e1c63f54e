"""The generators that know the formats: a fixed sample of what `benchmarks.fuzz_streams` tries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.fuzz_streams import Checkpoints, Messages, Tally, TeamMessages


@pytest.mark.parametrize("name", ["messages", "checkpoints", "team"])
def test_whatever_comes_is_read_or_refused(name: str, tmp_path: Path) -> None:
    targets = {"messages": Messages, "checkpoints": Checkpoints, "team": TeamMessages}
    target = targets[name](*([] if name == "messages" else [tmp_path]))
    tally = Tally()
    for seed in range(40):
        target.case(np.random.default_rng(seed), seed, tally)
    assert tally.examples == []
    assert tally.accepted > 0
