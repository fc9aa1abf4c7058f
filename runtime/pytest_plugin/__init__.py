"""The pytest plugin. One module that stands alone: sessions have it as `holdfast_pytest`."""
