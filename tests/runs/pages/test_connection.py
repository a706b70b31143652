import re

from tests.proxies.nginx import documented


def test_it_names_the_command_and_the_lines_that_the_documentation_shows(as_owner):
    page = as_owner.get("/connection/").content.decode()
    assert "outlive doctor --base-url http" in page
    shown = re.search(r'<pre id="snippet">(.*?)</pre>', page, re.DOTALL)[1].replace("    ", "")
    tested = documented(port=80, upstream="http://127.0.0.1:8000").replace("    ", "")
    assert shown in tested


def test_strangers_are_sent_to_sign_in(client, db):
    assert client.get("/connection/")["Location"] == "/login/?next=/connection/"
