"""An image with other certificate authorities is found, and distinguished."""

from __future__ import annotations

from tests.engine.fake_engine import FakeImages

from holdfast.images import authorities
from holdfast.images.build_context import BuildContext, ContextFile


def context(*trusted: str, recipe: str = "FROM debian") -> BuildContext:
    files = {f"host-ca/holdfast-{name}.crt": ContextFile(name.encode()) for name in trusted}
    files |= {"host-ca/README": ContextFile(b""), "session/Dockerfile": ContextFile(recipe.encode())}
    return BuildContext("session", files)


def made(images: FakeImages, of: BuildContext) -> str:
    tag = f"holdfast/session:{of.digest}"
    images.add(of.digest, tag)
    images.labels[of.digest] = authorities.labels(of)
    return tag


def test_the_same_content_is_found_whatever_it_trusts() -> None:
    images = FakeImages()
    there = made(images, context("a", "b"))
    made(images, context("a", recipe="FROM other"))

    found = authorities.find(images, context("b", "c", "d"))

    assert found == authorities.ImageRelative(there, more=1, fewer=2)
    assert "1 more, 2 fewer" in str(found)
    assert found.hint("holdfast/session:wanted").startswith(f"`docker tag {there} holdfast/session:wanted`")


def test_an_image_of_other_content_does_not_count() -> None:
    images = FakeImages()
    made(images, context("a", recipe="FROM other"))
    images.add("older", "holdfast/session:older", holdfast_image="session")

    assert authorities.find(images, context("a")) is None


def test_the_labels_of_an_image_do_not_depend_on_order() -> None:
    one, other = authorities.labels(context("a", "b")), authorities.labels(context("b", "a"))

    assert one == other
    assert one["holdfast.content"] == authorities.labels(context())["holdfast.content"]
