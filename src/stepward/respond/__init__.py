"""Response: what follows from what was seen: people are told (``notices``), jobs leave broken nodes (``restarting``)."""
