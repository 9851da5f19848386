"""The description of the interface: of every route, with the limits and options of this server."""

import json
from pathlib import Path

from fairseq_hrt import __version__
from fairseq_hrt.native.server.interface import describe_interface
from fairseq_hrt.native.server.requests import DECODING
from fairseq_hrt.native.server.settings import Settings

SETTINGS = Settings(systems=(("a", Path("x")),), max_characters=123, max_texts=7)


def fields_of(document, route):
    """The schema of what is sent to a route; the same for JSON and forms."""
    content = document["paths"][route]["post"]["requestBody"]["content"]
    schema, *others = (one["schema"] for one in content.values())
    assert others == [schema, schema]
    return schema


def test_limits_and_options_of_this_server():
    document = describe_interface(SETTINGS)
    assert (
        json.loads(json.dumps(document)) == document and document["info"]["version"] == __version__
    )
    for route in ("/translate", "/v1/translate"):
        schema = fields_of(document, route)
        single, many = schema["properties"]["q"]["oneOf"]
        assert single["maxLength"] == many["items"]["maxLength"] == 123 and many["maxItems"] == 7
        assert schema["required"] == ["q", "source", "target"] and set(schema["required"]) < set(
            schema["properties"]
        )
    options = fields_of(document, "/v1/translate")["properties"]["options"]
    assert options["properties"] == DECODING and options["additionalProperties"] is False
    assert "options" not in fields_of(document, "/translate")["properties"]


def test_every_refusal_is_described():
    document = describe_interface(SETTINGS)
    for route, operations in document["paths"].items():
        for method, operation in operations.items():
            statuses = set(operation["responses"])
            assert {"200", "408", "503"} <= statuses
            assert ({"400", "403", "413", "415", "429", "504"} <= statuses) == (method == "post"), (
                route
            )
            for status, response in operation["responses"].items():
                schema = response["content"]["application/json"]["schema"]
                assert (schema.get("required") == ["error"]) == (status != "200")


def test_the_description_names_every_route(client):
    document = client.get("/spec").json()
    own = {route.path for route in client.app.routes} - {
        "/",
        "/page.js",
        "/graph.js",
        "/page.css",
        "/metrics",
        "/spec",
        # Of LibreTranslate's interface, and disabled.
        "/suggest",
        "/translate_file",
    }
    assert set(document["paths"]) == own
