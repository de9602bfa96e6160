"""From the bytes of a frame to a committed and applied one: decode, dedupe, coalesce, commit, acknowledge, apply."""
