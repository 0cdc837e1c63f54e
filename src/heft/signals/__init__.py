"""Signal processing of recordings: clock, smoothing, differentiation, outliers, the weak form."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import periodic, weak_form
    from .settings import Smoothing
    from .clock import GAP_STEPS, Timeline, Window, between_gaps, follows, median_of_medians
    from .clock import survey, windows
    from .outliers import STD_PER_MAD, hampel, replace_outliers, running_median
    from .filters import REACH, Smoothed, density, linear, low_pass, remembered, settling, smooth
    from .bandwidth import LARGEST_CORNER, limited, resolve, unsmoothed
    from .smoothing import Smoother, period_of, smoother
    from .weak_form import Integrals, Samples, Weak, WhiteWeak, Windows, integrate
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
