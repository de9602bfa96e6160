"""Foreign and exported points become a run: each reader yields points, one writer journals them, the spool delivers them."""
