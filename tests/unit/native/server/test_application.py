"""The application: paths without a route, errors inside, headers."""

import pytest

# Servers with models of their own.
pytestmark = pytest.mark.slow

ASKED = {"q": "Good morning.", "source": "en", "target": "de"}


def test_other_refusals(make_client):
    client = make_client(max_body=200)
    assert (
        client.post("/translate", content=b"x", headers={"content-type": "text/plain"}).status_code
        == 415
    )
    response = client.post("/translate", json={**ASKED, "q": "x" * 300})
    assert (response.status_code, response.json()) == (
        413,
        {"error": "Request body exceeds the limit of 200 bytes"},
    )
    assert (client.get("/translate").status_code, client.get("/translate").json()) == (
        405,
        {"error": "Method not allowed; use POST"},
    )
    for path in (
        "/nothing",
        "/../setup.py",
        "/page/../application.py",
        "/%2e%2e/%2e%2e/etc/passwd",
    ):
        assert (client.get(path).status_code, client.get(path).json()) == (
            404,
            {"error": "Not found"},
        )


def test_what_fails_inside_stays_inside(client, translator, caplog):
    def fail(lines):
        raise RuntimeError("/a/path/of/this/machine")

    translator.before = fail
    response = client.post("/translate", json=ASKED)
    assert (response.status_code, response.json()) == (500, {"error": "Internal server error"})
    assert "/a/path" in caplog.text


def test_headers(make_client):
    response = make_client().get("/")
    assert "unsafe-inline" not in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in response.headers
    allowed = make_client(allow_origin="https://Example.org:443").get(
        "/health", headers={"origin": "https://example.org"}
    )
    assert allowed.headers["access-control-allow-origin"] == "https://example.org"
