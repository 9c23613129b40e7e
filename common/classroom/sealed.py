"""Parts of a hand-out that wait for a word from the teacher.

The starting point of one exercise often shows what another asks for. Such exercises are handed out sealed, and opened with
`./ladder learn open 3.4 WORD` when the others are done. A sealed part is JSON: {"salt", "check", "text"}; the text is the content,
compressed, and combined with a key stream (SHAKE-256) that comes from word and salt by scrypt.
"""

import base64
import hashlib
import hmac
import json
import secrets
import zlib

# Easy to say in a room and to type; two of them and two digits make a word.
SYLLABLES = ("ba be bi bo da de di do fa fe fi fo ga ge gi go ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe pi po ra re ri ro "
             "sa se si so ta te ti to wa we wi wo za ze zi zo").split()


class WrongWord(Exception):
    """The word does not open it."""


def new_word():
    return "".join(secrets.choice(SYLLABLES) for _ in range(5)) + str(secrets.randbelow(90) + 10)


def _keys(word, salt):
    key = hashlib.scrypt(word.strip().lower().encode(), salt=salt, n=2**14, r=8, p=1, dklen=64)
    return key[:32], key[32:]


def _combined(data, key):
    return bytes(a ^ b for a, b in zip(data, hashlib.shake_256(key).digest(len(data))))


def packed(text, key):
    """A text that no search and no glance finds. Anyone who reads this program can unpack it: docs/instructors.md says what that means."""
    return base64.b64encode(_combined(zlib.compress(text.encode(), 9), key.encode())).decode()


def unpacked(text, key):
    return zlib.decompress(_combined(base64.b64decode(text), key.encode())).decode()


def seal(content, word):
    """A JSON-able content, sealed."""
    salt = secrets.token_bytes(16)
    key, check_key = _keys(word, salt)
    text = _combined(zlib.compress(json.dumps(content).encode(), 9), key)
    check = hmac.new(check_key, text, hashlib.sha256).hexdigest()
    return {"salt": salt.hex(), "check": check, "text": base64.b64encode(text).decode()}


def opened(sealed, word):
    """The content. Raises WrongWord."""
    text = base64.b64decode(sealed["text"])
    key, check_key = _keys(word, bytes.fromhex(sealed["salt"]))
    if not hmac.compare_digest(hmac.new(check_key, text, hashlib.sha256).hexdigest(), sealed["check"]):
        raise WrongWord("that word does not open it; your teacher has the right one")
    return json.loads(zlib.decompress(_combined(text, key)))
