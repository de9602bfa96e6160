import os
import stat
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.cli.login import merged, remember
from stepward.errors import UsageError
from stepward.settings import config_path, load


def test_other_lines_stay():
    old = '# mine\nproject = "llm"\ntoken = "old"\n\n[table]\ntoken = "not this"\n'
    new = merged(old, {"server": "http://h", "token": 'a"b\\'})
    assert tomllib.loads(new) == {
        "server": "http://h",
        "token": 'a"b\\',
        "project": "llm",
        "table": {"token": "not this"},
    }
    assert "# mine" in new


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_token_is_kept(secret):
    assert tomllib.loads(merged("", {"token": secret}))["token"] == secret


@pytest.mark.parametrize("old", ["server = ", 'token = """\nserver = "x"\n"""\n'])
def test_a_file_that_would_not_survive_is_refused(old):
    with pytest.raises(UsageError) as raised:
        merged(old, {"server": "http://h"})
    assert raised.value.code == "bad_config_file"


def test_what_is_kept_is_private_and_found_again():
    remember({"server": "http://h:1", "token": "t"})
    remember({"server": "http://h:2", "token": "u"})
    assert stat.S_IMODE(os.stat(config_path()).st_mode) == 0o600
    assert os.listdir(os.path.dirname(config_path())) == ["config.toml"]
    assert (load().server, load().token) == ("http://h:2", "u")


def test_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError) as raised:
        remember({"token": "t"})
    assert raised.value.code == "bad_config_file"
