"""Write the OpenAPI document from which the UI's types are generated: ``python ui/openapi.py [FILE]``.

The document holds the schemas of ``stepward.model.resources`` alone: they are what the UI reads, and reading them needs
no server. The routes are listed in ``docs/api.md``.
"""

import json
import sys
from pathlib import Path

import msgspec

from stepward.model import resources


def document() -> dict[str, object]:
    """OpenAPI 3.1 with one schema for each resource."""
    structs = [
        value
        for value in vars(resources).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == resources.__name__
    ]
    _, schemas = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "stepward", "version": "1"},
        "paths": {},
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "build" / "openapi.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(), indent=1) + "\n")
