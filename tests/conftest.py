"""Settings of all tests: properties are tried on the same examples every time, for as long as they take."""

from hypothesis import settings

settings.register_profile("lim2", deadline=None, derandomize=True)
settings.load_profile("lim2")
