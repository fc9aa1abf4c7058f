"""Labels of containers and images, as the engine's filters write them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping


def label_filters(labels: Mapping[str, str]) -> list[str]:
    """Return labels as the engine filters by them: `holdfast_home` is `holdfast.home`."""
    return [f"{key.replace('_', '.')}={value}" for key, value in labels.items()]
