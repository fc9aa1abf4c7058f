from __future__ import annotations

import pytest

from holdfast.errors import ImageError
from holdfast.runtime.sessions import image_settings


def test_an_image_with_volumes_is_refused() -> None:
    """Their contents would be missing from every snapshot, and nothing would say so."""
    image_settings.check("x", {"Volumes": None})
    image_settings.check("x", {})
    with pytest.raises(ImageError, match=r"^cannot use image x: it declares a volume at /a, /dta, ") as told:
        image_settings.check("x", {"Volumes": {"/d\x1bta": {}, "/a": {}}})
    assert "\x1b" not in str(told.value)
    assert "without VOLUME" in told.value.hint


def test_labels_of_an_image_are_emptied() -> None:
    """Programs on the host act upon labels; ours are set anyway, and count layers of our images."""
    config = {"Labels": {"traefik.enable": "true", "holdfast.base": "3", "holdfast.home": "forged"}}

    made = image_settings.without_labels(config, {"holdfast.home": "h"})

    assert made == {"traefik.enable": "", "holdfast.home": "h"}
    assert image_settings.without_labels({"Labels": None}, {"a": "b"}) == {"a": "b"}
