"""stepward keeps ML runs healthy, fast and explained."""

__version__ = "0.1.0"
