"""Several robots that hold one load: each learns it from its own sensors and its neighbours."""

from .signals import ContactSignals, LoadEstimate
from .paper import PaperMethod, PaperResult
from .method import CooperativeMethod, CooperativeResult, Known
