"""Notices: from an event or the bad end of an attempt to a message for people (docs/notices.md)."""
