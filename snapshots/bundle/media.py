"""Names of what is in a bundle: media types of OCI, our own, and the keys of annotations.

They are a published form (docs/bundles.md): what is once written is read for good.
"""

from __future__ import annotations

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"

SNAPSHOT = "application/vnd.holdfast.snapshot.v1+json"
"""The artifact type of the manifest that describes a snapshot."""
SNAPSHOT_CONFIG = "application/vnd.holdfast.snapshot.config.v1+json"
SEGMENT = "application/vnd.holdfast.snapshot.segment.v1+zstd"
ENCRYPTED = "+encrypted"
"""Appended to the media type of what cannot be read without a key."""

MANIFESTS = frozenset({INDEX, MANIFEST})
"""What a registry keeps as manifests; everything else is a blob."""

KEY = "io.holdfast.key"
SIGNATURE = "io.holdfast.signature"
SEALED = "io.holdfast.sealed"
"""For whom a bundle is encrypted."""
RAW_BYTES = "io.holdfast.bytes"
"""How large a layer is when it is decompressed."""


def is_sealed(media_type: str) -> bool:
    """Whether it takes a key to read."""
    return media_type.endswith(ENCRYPTED)


def is_manifest(media_type: str) -> bool:
    """Whether a registry keeps it as a manifest, and wants it after everything that it names."""
    return media_type in MANIFESTS
