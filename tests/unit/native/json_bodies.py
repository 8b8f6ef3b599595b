"""Bodies of requests in JSON: what readers in C take, what is nearly that, and what is broken."""

import json
from typing import Any, Final

from hypothesis import strategies as st

from tests.unit.native import strategies as own

Bodies = st.SearchStrategy[tuple[bytes]]

texts: Final = st.one_of(own.texts, st.just("\ud800"))

# --- sends: other members, other types, and bytes that were damaged ------------------------------

json_texts: Final = st.one_of(
    st.text('ab-_"\\/ \t\x00\x7fé😀\uffff\ud800', max_size=12), st.just("x" * 81)
)
members: Final = {
    "MessageGroupId": json_texts | st.none(),
    "MessageDeduplicationId": json_texts,
    "DelaySeconds": st.integers(),
    "Entries": json_texts,
}
plain_sends: Final = st.fixed_dictionaries(
    {"QueueUrl": texts, "MessageBody": json_texts}, optional=members
)
entry_ids: Final = st.text("aA0-_.", max_size=3)
plain_batches: Final = st.fixed_dictionaries(
    {
        "QueueUrl": texts,
        "Entries": st.one_of(
            st.lists(
                st.fixed_dictionaries({"Id": entry_ids, "MessageBody": json_texts}), max_size=11
            ),
            st.lists(
                st.fixed_dictionaries(
                    {"Id": entry_ids, "MessageBody": json_texts}, optional=members
                ),
                max_size=3,
            ),
        ),
    },
    optional={"Id": json_texts},
)


def json_bodies(values: st.SearchStrategy[dict[str, Any]]) -> Bodies:
    """Written in several ways; many with a few bytes in the wrong place."""

    def written(value: dict[str, Any], is_ascii: bool, indent: int | None) -> bytes:
        text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
        return text.encode("utf-8", "surrogatepass")

    return st.tuples(damaged(st.builds(written, values, st.booleans(), st.sampled_from([None, 1]))))


def damaged(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Some of them, and mostly by little."""

    def with_wrong(body: bytes, wrong: bytes, at: int, size: int) -> bytes:
        return body[:at] + wrong + body[at + size :]

    wrong = st.sampled_from(
        [b"", b'"', b"\\", b"\\u0041", b",", b"}", b" ", b"\x00", b"\xff", b"null"]
    )
    broken = st.builds(with_wrong, whole, wrong, st.integers(0, 150), st.integers(0, 2))
    cut = st.builds(lambda body, at: body[:at], whole, st.integers(0, 200))
    return st.one_of(whole, whole, broken, cut)


# --- receives and deletes: members as they are written, in any number and form -------------------

NUMBERS: Final = st.one_of(
    st.integers(0, 43_201).map(str),
    st.sampled_from(["1", "10", "0", "20", "30", "43200"]),
    st.sampled_from(
        ["11", "21", "43201", "-0", "-1", "00", "01", "010", "1.0", "1e1", "1.5", "2."]
    ),
    st.sampled_from(["null", "true", "false", '"1"', "[]", "{}", "9" * 10, "9" * 30, "0x1", "1 1"]),
)
LISTS: Final = st.sampled_from(["[]", "null", '["All"]', '"All"', "[1]", "{}", "[ ]"])
ODD_STRINGS: Final = st.sampled_from(
    ['""', "null", "1", '"\\u0041"', '"a\\n"', '"é"', '"\x00"', '"\\ud800"', '"', "[]", '"\x7f"']
)
SPACES: Final = st.sampled_from(["", "", "", " ", "\n\t\r ", "\x0b"])
SPACES_OFTEN_NONE: Final = st.one_of(st.just(""), st.just(" "), st.just(""), SPACES)


def member(name: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Its name is sometimes written with an escape."""
    names = st.sampled_from([f'"{name}"'] * 8 + [f'"\\u{ord(name[0]):04x}{name[1:]}"'])
    return st.builds(lambda *parts: "".join(parts), names, SPACES_OFTEN_NONE.map(_colon), value)


def _colon(space: str) -> str:
    return f"{space}:{space}"


UNKNOWN: Final = st.sampled_from(
    ['"Other":1', '"id":"x"', '"Queueurl":"x"', '"Other":{"a":[null]}']
)


def objects(*members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Mostly each member once, in any order; sometimes one is missing, another one there twice."""
    once = st.tuples(*members).flatmap(st.permutations)
    any_of = st.lists(st.one_of(*members, UNKNOWN), max_size=5)
    return st.builds(
        lambda found, space: "{" + f"{space},{space}".join(found) + "}",
        st.one_of(once, once, any_of),
        SPACES_OFTEN_NONE,
    )


def deletes(url: st.SearchStrategy[str], handle: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return objects(member("QueueUrl", url), member("ReceiptHandle", handle))


def delete_batches(
    url: st.SearchStrategy[str], handle: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    few = st.sampled_from(['"a"', '"b"', '"c-_Z9"'])
    ids = st.one_of(
        st.integers(0, 99).map(lambda number: f'"{number}"'),
        few,
        ODD_STRINGS,
        st.sampled_from([json.dumps("x" * size) for size in (80, 81)] + ['"a b"', '"a.b"']),
    )
    entry = objects(member("Id", ids), member("ReceiptHandle", handle))
    plain = st.lists(handle, min_size=1, max_size=11).map(
        lambda found: [f'{{"Id":"{at}","ReceiptHandle":{one}}}' for at, one in enumerate(found)]
    )
    entries = st.one_of(plain, st.lists(entry, max_size=3)).map(
        lambda found: f"[{','.join(found)}]"
    )
    return objects(member("QueueUrl", url), member("Entries", entries | LISTS))


def receives(url: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    asked = [
        member(name, NUMBERS)
        for name in ("MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds")
    ]
    names = [
        member(name, LISTS)
        for name in ("AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames")
    ]
    attempt = member("ReceiveRequestAttemptId", st.sampled_from(["null", '"again"', "1"]))
    plain = objects(member("QueueUrl", url), *asked)
    return st.one_of(
        plain, plain, objects(member("QueueUrl", url), st.one_of(*asked, *names, attempt))
    )


def as_bodies(texts: st.SearchStrategy[str]) -> Bodies:
    return st.tuples(damaged(texts.map(lambda text: text.encode("utf-8", "surrogatepass"))))
