"""Write the OpenAPI document from which the UI's types are generated: ``python ui/openapi.py [FILE]``.

It is the server's own document (``/api/v1/openapi.json``), read from the application without starting it, and made
stricter in one thing: the server sends every field of a struct, also those that have a default, so they are marked
required; only structs that leave defaults out keep their optional fields. Examples are left out: they are made up anew
each time, and the same source shall give the same types.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from stepward.goodput import answers
from stepward.model import clusters, jobs, nodes, points, resources, updates
from stepward.server.app import ServerSettings, create_app

MODULES = (resources, points, updates, answers, clusters, jobs, nodes)
"""Where the structs of the API are."""


def document() -> dict[str, Any]:
    """The server's OpenAPI document with all fields that are always sent marked required."""
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(ServerSettings(data=folder))
        # Through JSON, since the schema still holds enums of its own.
        document: dict[str, Any] = json.loads(json.dumps(app.openapi_schema.to_schema(), default=str))
    for name, schema in document["components"]["schemas"].items():
        struct = next((found for module in MODULES if (found := getattr(module, name, None))), object)
        sent_whole = issubclass(struct, msgspec.Struct) and not struct.__struct_config__.omit_defaults
        if sent_whole:
            schema["required"] = sorted(schema.get("properties", {}))
    return without_examples(document)


def without_examples(node: Any) -> Any:
    """A copy of a JSON tree without the members ``example`` and ``examples``."""
    if isinstance(node, list):
        return [without_examples(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: without_examples(value) for key, value in node.items() if key not in ("example", "examples")}


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "build" / "openapi.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(), indent=1, sort_keys=True) + "\n")
