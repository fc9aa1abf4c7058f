"""Rules for a session's reach, as text for nftables. Pure, and also read by the host."""
