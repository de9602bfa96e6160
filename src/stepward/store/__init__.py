"""Where things rest: catalog (what runs there are), points (series), logs, blobs."""
