"""Whatever is in a file: it is read, or refused in one line."""

from collections.abc import Callable
from pathlib import Path

import faultline.platforms
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec_file import parse_spec
from faultline.platforms.xml_reader import platform_from_xml
from faultline.platforms.xml_writer import xml_text
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples

TOML = (Path(faultline.platforms.__file__).parent / "presets" / "gb200-nvl72.toml").read_text(
    "utf-8"
)
XML = xml_text(load_preset("hgx-h100", domains=2, gpus_per_domain=2, **{"host.doors": True}))

WORDS = st.one_of(
    st.sampled_from(["", "0", "-1", "1e999", "true", "[", "]", "{}", '"', "'", "\n", "=", "\\"]),
    st.sampled_from(["\x00", "é", "="]),
    st.sampled_from(["nvlink9", "1GB", "1GB/s", "400Gbps", "1us", "gpu", "core", "<", "/>", "&a;"]),
    st.text(max_size=8),
    st.integers().map(str),
)


def lines(text: str) -> st.SearchStrategy[str]:
    """Replace a whole value of one line, or drop or repeat the line."""
    rows = text.splitlines()

    def apply(case: tuple[int, str, str]) -> str:
        index, word, how = case
        row = rows[index]
        new = {
            "drop": [],
            "repeat": [row, row],
            "value": [row.partition("=")[0] + "= " + word],
            "quoted": [row.replace('value="', f'value="{word}')],
        }[how]
        return "\n".join([*rows[:index], *new, *rows[index + 1 :]])

    how = st.sampled_from(["drop", "repeat", "value", "quoted"])
    return st.tuples(st.integers(0, len(rows) - 1), WORDS, how).map(apply)


def taken_or_refused(read: Callable[[], object]) -> None:
    """Check that whatever is refused is refused in one line."""
    message = "taken"
    try:
        read()
    except PlatformError as error:
        message = str(error)
    assert message
    assert "\n" not in message


@examples(1.5)
@given(lines(TOML))
def test_any_spec_is_read_or_refused(text: str) -> None:
    taken_or_refused(lambda: parse_spec(text, "c.toml"))


@examples(1.5)
@given(lines(XML))
def test_any_platform_file_is_read_or_refused(text: str) -> None:
    taken_or_refused(lambda: platform_from_xml(text.encode("utf-8", "replace"), "p.xml"))
