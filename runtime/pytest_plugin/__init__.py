"""The pytest plugin: one self-contained module, which sessions have as `holdfast_pytest`."""
