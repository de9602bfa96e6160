"""Response: what follows from what was seen. So far people are told (``notices``)."""
