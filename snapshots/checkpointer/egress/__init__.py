"""Rules for what a session can reach, as text for nftables. Pure, and also read by the host."""
