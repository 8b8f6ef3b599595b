"""Values as TOML spells them, for files that commands write. Pure."""


def toml_value(text: str, kind: type = str) -> str:
    if kind is not str:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(map(_escape, escaped)) + '"'


def _escape(letter: str) -> str:
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"
