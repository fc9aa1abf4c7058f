"""Files of a sandbox on this wire: its RPCs, uploads and downloads, and watches."""
