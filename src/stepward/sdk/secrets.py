"""Secrets: what may not leave the machine is masked before it is journaled.

Two tests decide: the *name* that a value goes by (``password``, ``api_key``), and the *shape* of well-known tokens and of
URLs with credentials. Whole trees, texts (a diff, a traceback) and command lines go through the same two. Masking errs
towards hiding; only numbers under a name like ``pad_token`` and the vocabulary's own words are let through.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

MASK = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    [
        *("password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials"),
        *("apikey", "authorization", "bearer", "jwt", "cookie"),
    ]
)
_SECRET_PAIRS = frozenset(
    {
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("account", "key"),
        ("storage", "key"),
        ("encryption", "key"),
        ("signing", "key"),
        ("ssh", "key"),
        ("auth", "key"),
    }
)
_MODEL_TOKENS = frozenset(
    [
        *("pad", "eos", "bos", "unk", "cls", "sep", "mask", "image", "audio", "video", "special", "additional"),
        *("stop", "start", "end", "boi", "eoi", "decoder", "forced", "begin", "next", "think", "max", "min", "num"),
    ]
)
"""Words before "token" that make it one of a vocabulary, not a credential."""

_SHAPES = re.compile(
    r"""(?<![A-Za-z0-9_])(?:
      sk-[A-Za-z0-9_-]{16,}
    | hf_[A-Za-z0-9]{20,}
    | gh[opsur]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}
    | (?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])
    | xox[abceoprs]-[A-Za-z0-9-]{10,}
    | AIza[A-Za-z0-9_-]{30,} | ya29\.[A-Za-z0-9_.-]{20,}
    | npm_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{40,} | dckr_pat_[A-Za-z0-9_-]{20,}
    | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    )""",
    re.VERBOSE,
)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_USERINFO = re.compile(r"(?<=://)[^\s/@?#'\"<>]++@")
_SIGNED = re.compile(
    r"(?i)([?&](?:X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-(?:Signature|Credential)|AWSAccessKeyId|sig|"
    r"signature|token|access_token|key|api_?key|password|secret)=)[^\s&#'\"<>]+"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])(?P<name>-{0,2}[A-Za-z_][\w.-]*+)(?P<between>[\"']?\s*[:=]\s*|[\"']?\s*,\s*(?=[\"']))"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)++\"|'(?:[^'\\\n]|\\.)++'|[\"']?[^\s,;)}\]'\"]++)"
)


def is_secret_name(name: str) -> bool:
    """Whether a value that goes by this name is a credential: ``HF_TOKEN``, ``apiKey``, ``db.password``."""
    words = [word.lower() for word in _WORDS.findall(name[-256:])]
    if any(word in _SECRET_WORDS for word in words):
        return True
    if any(pair in _SECRET_PAIRS for pair in pairwise(words)):
        return True
    return bool(words) and words[-1] == "token" and not (len(words) > 1 and words[-2] in _MODEL_TOKENS)


def mask_text(text: str) -> str:
    """A text without credentials: token shapes, private keys, URLs, ``name=value`` and ``"name": "value"``."""
    text = _PEM.sub(MASK, text)
    text = _SHAPES.sub(MASK, text)
    text = _USERINFO.sub(f"{MASK}@", text)
    text = _SIGNED.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1\2{MASK}", text)
    return _ASSIGNMENT.sub(_mask_assignment, text)


def mask_argv(argv: Sequence[str]) -> list[str]:
    """A command line without credentials; the value may be in the next argument (``--token X``), and begin with a dash."""
    masked, secret = [], False
    for argument in argv:
        flag = argument.startswith("--") or (argument.startswith("-") and len(argument) == 2)
        masked.append(MASK if secret and not flag else mask_text(argument))
        secret = argument.startswith("-") and "=" not in argument and is_secret_name(argument)
    return masked


def mask_tree(tree: Any, name: str = "") -> Any:
    """A tree of plain values without credentials, by name of each key and by shape of each text."""
    if isinstance(tree, Mapping):
        return {key: mask_tree(value, str(key)) for key, value in tree.items()}
    if isinstance(tree, list):
        return [mask_tree(value, name) for value in tree]
    if tree is None or isinstance(tree, bool):
        return tree
    if is_secret_name(name) and tree != "" and not (isinstance(tree, int | float) and name.lower().endswith("token")):
        return MASK
    return mask_text(tree) if isinstance(tree, str) else tree


def _mask_assignment(match: re.Match[str]) -> str:
    if not is_secret_name(match["name"]):
        return match[0]
    value = match["value"]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{match['between']}{quote}{MASK}{quote}"
