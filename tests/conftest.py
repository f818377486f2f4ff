"""How hard Hypothesis looks: `HYPOTHESIS_PROFILE=ci` looks ten times as hard as the default."""

import os

from hypothesis import settings

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
