"""Names in a bundle: OCI media types, our own, and the keys of annotations.

They are a published form (docs/bundles.md): anything written once must stay readable forever.
"""

from __future__ import annotations

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"

SNAPSHOT = "application/vnd.holdfast.snapshot.v1+json"
"""The artifact type of the manifest that describes a snapshot."""
SNAPSHOT_CONFIG = "application/vnd.holdfast.snapshot.config.v1+json"
SEGMENT = "application/vnd.holdfast.snapshot.segment.v1+zstd"
ENCRYPTED = "+encrypted"
"""Suffix of the media type of anything that cannot be read without a key."""

MANIFESTS = frozenset({INDEX, MANIFEST})
"""Media types a registry stores as manifests; everything else is a blob."""

KEY = "io.holdfast.key"
SIGNATURE = "io.holdfast.signature"
SEALED = "io.holdfast.sealed"
"""The recipients of an encrypted bundle."""
RAW_BYTES = "io.holdfast.bytes"
"""The size of a layer when it is decompressed."""


def is_sealed(media_type: str) -> bool:
    """Return whether a key is needed to read it."""
    return media_type.endswith(ENCRYPTED)


def is_manifest(media_type: str) -> bool:
    """Return whether a registry stores it as a manifest, which must follow its parts."""
    return media_type in MANIFESTS
