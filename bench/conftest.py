"""How long property tests of the measurements search."""

from hypothesis import HealthCheck, settings

# A deadline per example, or for making examples, would only find busy machines.
settings.register_profile("bench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bench")
