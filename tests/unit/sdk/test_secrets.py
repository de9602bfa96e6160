"""Credentials never leave: by name, by shape, in texts, trees, command lines."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.sdk.secrets import MASK, is_secret_name, mask_argv, mask_text, mask_tree

ALNUM = string.ascii_letters + string.digits


def grown(prefix, alphabet, least, most=60):
    return st.text(alphabet, min_size=least, max_size=most).map(lambda tail: prefix + tail)


TOKENS = st.one_of(
    grown("sk-", ALNUM, 20),
    grown("sk-ant-", ALNUM + "-_", 20),
    grown("hf_", ALNUM, 30),
    grown("ghp_", ALNUM, 36),
    grown("github_pat_", ALNUM + "_", 40),
    grown("glpat-", ALNUM, 20),
    grown("AKIA", string.ascii_uppercase + string.digits, 16, 16),
    grown("xoxb-", ALNUM + "-", 24),
    grown("AIza", ALNUM + "-_", 35, 35),
    st.tuples(*[st.text(ALNUM + "-_", min_size=20, max_size=40)] * 3).map(lambda p: "eyJ" + ".".join(p)),
)
PASSWORDS = st.text(ALNUM + "!$%^*~._", min_size=8, max_size=40).filter(lambda text: MASK not in text)
WORDS = st.text(string.ascii_lowercase + " \n", max_size=60)
SECRET_NAMES = st.sampled_from(
    [
        "password",
        "DB_PASSWORD",
        "api_key",
        "apiKey",
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "token",
        "client-secret",
        "secret",
        "wandb.api_key",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "authToken",
        "user_token",
        "private_key",
    ]
)


@given(WORDS, TOKENS, WORDS)
def test_token_shapes_are_masked_wherever_they_stand(before, token, after):
    assert token not in mask_text(f"{before} {token} {after}")
    assert token not in mask_text(f'{before}x="{token}"{after}')
    assert token not in str(mask_tree({"note": [f"see {token}"]}))


@given(SECRET_NAMES, PASSWORDS)
def test_values_of_secret_names_are_masked(name, password):
    assert is_secret_name(name)
    assert mask_tree({"deep": [{name: password}]}) == {"deep": [{name: MASK}]}
    assert password not in mask_text(f"+    {name} = '{password}'")
    assert password not in mask_text(f'{{"{name}": "{password}"}}')
    assert password not in " ".join(mask_argv(["train.py", f"--{name}", password]))
    assert password not in " ".join(mask_argv(["train.py", f"--{name}={password}"]))
    assert password not in " ".join(mask_argv(["train.py", f"db.{name}={password}"]))


@given(st.sampled_from(["https", "postgresql", "s3", "redis"]), PASSWORDS)
def test_urls_lose_their_credentials_alone(scheme, password):
    masked = mask_text(f"{scheme}://ann:{password}@host:99/path?x=1")
    assert masked == f"{scheme}://{MASK}@host:99/path?x=1"
    assert mask_text(f"{scheme}://{password}@host/p") == f"{scheme}://{MASK}@host/p"


@given(PASSWORDS)
def test_signed_urls_and_bearer_headers(password):
    value = "".join(c for c in password if c in ALNUM).ljust(8, "x")
    assert f"={value}" not in mask_text(f"https://b.s3.amazonaws.com/o?X-Amz-Signature={value}&X-Amz-Date=2")
    assert value not in mask_text(f"curl -H 'Authorization: Bearer {value}' http://h").replace("Bearer", "")


def test_private_keys_are_masked_whole_even_when_cut_off():
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\nabc\n"
    assert mask_text(f"a\n{key}-----END OPENSSH PRIVATE KEY-----\nb") == f"a\n{MASK}\nb"
    assert "b3BlbnNz" not in mask_text(key)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer",
        "max_tokens",
        "tokens",
        "pad_token",
        "eos_token",
        "bosToken",
        "token_ids",
        "num_tokens",
        "author",
        "max_token",
        "key",
        "keys",
        "num_key_value_heads",
        "primary_keyboard",
        "monkey",
        "passes",
        "auth_mode",
        "hidden",
    ],
)
def test_names_of_models_are_no_secrets(name):
    assert not is_secret_name(name)
    assert mask_tree({name: "<pad>"}) == {name: "<pad>"}


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --lr 3e-4 --config configs/base.yaml model.hidden=512",
        "git@github.com:team/repo.git",
        "https://github.com/team/repo.git",
        "commit 83fd539d0c6bd3a9a1b4d4a8d5c3d7a9a2f3b0c1",
        "task-force risk-assessment-of-the-month",
        "tokenizer = AutoTokenizer.from_pretrained(name)",
        "tokens: 4096",
    ],
)
def test_innocent_texts_stay_as_they_are(text):
    assert mask_text(text) == text


@given(st.text())
def test_masking_is_stable_and_never_fails(text):
    once = mask_text(text)
    assert mask_text(once) == once
    mask_tree({text: [text, {"a": text}]})
    mask_argv([text, text])


@pytest.mark.parametrize(
    "text",
    [
        r'{"password": "be\"fore-TAIL", "x": 1}',
        r"password = 'be\'fore-TAIL'",
        r'password = "before\\" + "x"  # before',
        'password = "before-TAIL',
        "password = 'before-TAIL\nnext = 1",
    ],
)
def test_quotes_that_are_escaped_or_never_closed_end_no_secret(text):
    masked = mask_text(text)
    assert "TAIL" not in masked and "fore-" not in masked
    assert MASK in masked


@pytest.mark.parametrize("password", ["-AbC123xyz", "-_xYz1234567890"])
def test_a_secret_of_the_command_line_may_begin_with_a_dash(password):
    assert mask_argv(["train.py", "--token", password]) == ["train.py", "--token", MASK]
    assert mask_argv(["train.py", "--token", "--epochs", "3", "-v"]) == ["train.py", "--token", "--epochs", "3", "-v"]


def test_long_words_take_linear_time():
    text = "a" * 300_000 + "://" + "b" * 300_000
    assert mask_text(text) == text
