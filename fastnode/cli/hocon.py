"""As much of HOCON as ElasticMQ's configuration files use: objects, lists, texts, comments. Pure.

Values are nested dicts, lists and texts; numbers, booleans and durations stay texts, since only
their reader knows which they are. `include` is skipped, and a substitution (`${…}`) stays as it is
written: whoever needs the value has to refuse it.
"""

import re
from typing import Any, Final

Value = dict[str, Any] | list[Any] | str

_BLANK: Final = re.compile(r"(?:\s|,|//[^\n]*|#[^\n]*)*")
_SPACE: Final = re.compile(r"[^\S\n]*")
_INCLUDE: Final = re.compile(r"include\s[^\n]*")
_QUOTED: Final = re.compile(r'"""(?P<raw>.*?)"""|"(?P<text>(?:[^"\\\n]|\\.)*)"', re.DOTALL)
_BARE_KEY: Final = re.compile(r"[^\s\"{}\[\]:=,+#`^?!@*&\\$.]+")
_BARE_VALUE: Final = re.compile(r"(?:\$\{[^}\n]*\}|(?!//)[^\"{}\[\],#\n])+")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_DEPTH_MAX: Final = 50


def parse_hocon(text: str) -> dict[str, Any]:
    """Raises `ValueError`, which says at which line."""
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def document(self) -> dict[str, Any]:
        self._take(_BLANK)
        found = self._object("}") if self._skip("{") else self._members(end="")
        self._take(_BLANK)
        if self._at < len(self._text):
            raise self._wrong("nothing may follow the end")
        return found

    def _object(self, end: str) -> dict[str, Any]:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._wrong("it is nested too deeply")
        found = self._members(end)
        self._depth -= 1
        return found

    def _members(self, end: str) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while True:
            self._take(_BLANK)
            if end and self._skip(end):
                return members
            if self._at == len(self._text):
                if end:
                    raise self._wrong(f"a {end} is missing")
                return members
            if not self._take(_INCLUDE):
                path = self._path()
                _merge(members, path, self._assigned())

    def _path(self) -> list[str]:
        """`a.b."c.d"` is a path of three."""
        path = [self._key()]
        while self._skip("."):
            path.append(self._key())
        return path

    def _key(self) -> str:
        quoted = self._quoted()
        if quoted is not None:
            return quoted
        key = self._take(_BARE_KEY)
        if not key:
            raise self._wrong("a key was expected")
        return key

    def _assigned(self) -> Value:
        self._take(_SPACE)
        if not self._text.startswith("{", self._at) and not (self._skip("=") or self._skip(":")):
            raise self._wrong("'=', ':' or '{' was expected after a key")
        self._take(_BLANK)
        return self._value()

    def _value(self) -> Value:
        if self._skip("{"):
            return self._object("}")
        if self._skip("["):
            return self._list()
        parts: list[str] = []
        while True:
            part = self._quoted()
            part = self._take(_BARE_VALUE) if part is None else part
            if not part:
                break
            parts.append(part)
        if not parts:
            raise self._wrong("a value was expected")
        return "".join(parts).strip()

    def _list(self) -> list[Any]:
        found: list[Any] = []
        while True:
            self._take(_BLANK)
            if self._skip("]"):
                return found
            if self._at == len(self._text):
                raise self._wrong("a ] is missing")
            self._depth += 1
            if self._depth > _DEPTH_MAX:
                raise self._wrong("it is nested too deeply")
            found.append(self._value())
            self._depth -= 1

    def _quoted(self) -> str | None:
        match = _QUOTED.match(self._text, self._at)
        if match is None:
            if self._text.startswith('"', self._at):
                raise self._wrong("a text in quotes does not end")
            return None
        self._at = match.end()
        return match["raw"] if match["raw"] is not None else _ESCAPE.sub(_unescaped, match["text"])

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]

    def _skip(self, letter: str) -> bool:
        is_there = self._text.startswith(letter, self._at)
        self._at += len(letter) if is_there else 0
        return is_there

    def _wrong(self, reason: str) -> ValueError:
        return ValueError(f"line {self._text.count(chr(10), 0, self._at) + 1}: {reason}")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)


def _merge(into: dict[str, Any], path: list[str], value: Value) -> None:
    """Objects of one name are one object; of other values the last one counts."""
    for key in path[:-1]:
        inner = into.get(key)
        if not isinstance(inner, dict):
            inner = into[key] = {}
        into = inner
    last, present = path[-1], into.get(path[-1])
    if isinstance(present, dict) and isinstance(value, dict):
        for key, inner_value in value.items():
            _merge(present, [key], inner_value)
    else:
        into[last] = value
