"""How sure an estimate is: blocks left out, strict bounds, draws, and settings that may be off."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .possible_fits import PossibleFits
    from .bounds import StrictBounds, strict_bounds
    from .jackknife import JackknifeFit, fit_jackknife
    from .blocks import Block, Jackknife, block_moments
    from .consistent_samples import ConsistentSampler, ConsistentSamples
    from .drift import Change, ChangeSearch, DayToDay, Series, discoveries
    from .settings import BandwidthSearch, DelayFound, DelaySearch
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
