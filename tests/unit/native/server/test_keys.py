"""Who may ask: files of keys, and requests that bring one."""

import pytest

from fairseq_hrt.native.server.errors import RequestError
from fairseq_hrt.native.server.keys import check_key, read_keys

ASKED = {"q": "Good morning.", "source": "en", "target": "de"}


def test_a_key_is_a_field_or_a_bearer_token():
    check_key({}, "", [])
    for fields, authorization in (
        ({"api_key": "b"}, ""),
        ({}, "Bearer b"),
        ({}, "bearer  b "),
        ({"api_key": ""}, "Bearer b"),
    ):
        check_key(fields, authorization, ["a", "b"])
    missing, wrong = "Please contact the server operator to get an API key", "Invalid API key"
    for fields, authorization, message in (
        ({}, "", missing), ({"api_key": 5}, "", missing), ({}, "Basic b", missing),
        ({"api_key": "c"}, "Bearer b", wrong), ({"api_key": "\ud800"}, "", wrong),
        ({"api_key": "bb"}, "", wrong),
    ):  # fmt: skip
        with pytest.raises(RequestError) as caught:
            check_key(fields, authorization, ["a", "b"])
        status = 403 if message == wrong else 400
        assert (caught.value.status, caught.value.message) == (status, message)


def test_a_file_of_keys(tmp_path):
    """Also with a byte-order mark, as some editors write it."""
    (tmp_path / "keys").write_text("secret\n# of friends\n\n other \n", encoding="utf-8-sig")
    assert read_keys(tmp_path / "keys") == ["secret", "other"] and read_keys(None) == []


@pytest.mark.parametrize("sent", ["utf-8", "latin-1"])
def test_a_bearer_token_may_have_any_letters(sent):
    """Headers come as Latin-1, whatever the client has written."""

    def received(key):
        return "Bearer " + key.encode(sent).decode("latin-1")

    check_key({}, received("schlüssel"), ["key", "schlüssel"])
    check_key({"api_key": "schlüssel"}, "", ["schlüssel"])
    for wrong in ("schlössel", "schl?ssel"):
        with pytest.raises(RequestError, match="Invalid API key"):
            check_key({}, received(wrong), ["schlüssel"])


@pytest.mark.slow
def test_a_server_with_keys(make_client, tmp_path):
    (tmp_path / "keys").write_text("# of friends\nsecret\nother\n")
    client = make_client(key_file=tmp_path / "keys")
    assert client.post("/translate", json=ASKED).status_code == 400
    assert client.post("/translate", json={**ASKED, "api_key": "wrong"}).json() == {
        "error": "Invalid API key"
    }
    assert client.post("/translate", json={**ASKED, "api_key": 7}).status_code == 400
    assert client.post("/translate", json={**ASKED, "api_key": "other"}).status_code == 200
    assert (
        client.post(
            "/v1/translate", json=ASKED, headers={"authorization": "Bearer secret"}
        ).status_code
        == 200
    )
    assert client.post("/detect", json={"q": "a", "api_key": "no"}).status_code == 403
    assert client.get("/frontend/settings").json()["keyRequired"] is True


@pytest.mark.slow
def test_an_empty_file_of_keys_is_refused(make_client, tmp_path):
    (tmp_path / "keys").write_text("# nobody\n")
    with pytest.raises(ValueError, match="holds no key"):
        make_client(key_file=tmp_path / "keys")
