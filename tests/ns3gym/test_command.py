# SPDX-License-Identifier: GPL-2.0-only
import shlex
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.command import CommandLine, checked

SHELL = ["/bin/sh", "-c"]
AFTER = ["--openGymPort=5555", "--simSeed=7"]  # what ns3-gym's simulations understand
ATTACK = {"word": "$(touch PWN)", "other": "a b'; touch PWN"}
ATTACKS = ["--word=$(touch PWN)", "--other=a b'; touch PWN"]


def words_of(command, *, shell=False, **arguments):
    return CommandLine(command, shell=shell).words(5555, 7, checked(arguments))


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        (["true", "-v"], {"d": 2.5, "quiet": True}, ["true", "-v", *AFTER, "--d=2.5", "--quiet=true"]),
        # Places are filled, and what has one is not repeated; other braces stay.
        (
            ["true", "{port}:{seed}", "{who}", "{other}", "${port}", "{}"],
            {"who": "me"},
            ["true", "5555:7", "me", "{other}", "${port}", "{}"],
        ),
        (["true", "{seed}"], {}, ["true", "7", "--openGymPort=5555"]),
        (["true", "{arguments}", "-v"], {"b": 2, "c": "x y"}, ["true", "--b=2", "--c=x y", "-v", *AFTER]),
        (["true", "run --port={port} {arguments}"], {"b": 2, "c": 3}, ["true", "run --port=5555 --b=2 --c=3"]),
        ('true run "it --p={port} {arguments}"', {"b": 2, "c": 3}, ["true", "run", "it --p=5555 --b=2 --c=3"]),
        # A value is not a word of the command: what it contains is neither split nor run.
        ("true {port} {arguments}", ATTACK, ["true", "5555", *ATTACKS]),
        ('true "it {port} {arguments}"', ATTACK, ["true", shlex.join(["it", "5555", *ATTACKS])]),
        ('true "--x={word}" {other} {port}', ATTACK, ["true", "--x=$(touch PWN)", "a b'; touch PWN", "5555"]),
    ],
)
def test_the_words_to_run(command, arguments, words):
    assert words_of(command, **arguments) == words


@pytest.mark.parametrize(
    "text",
    [
        "cat <<EOF\n{word}\nEOF\n",
        "cat <<-'EOF'\n{arguments}\nEOF\n",
        "cat <<EOF\nwhat comes last is in it",
        "true `echo {word}`",
        "true $((1 + {word}))",
        "eval echo {word}",
        "true # {word}",
    ],
)
@pytest.mark.parametrize("attack", ["$(touch PWN)", "a`touch PWN`", "a\ntouch PWN\n", "'; touch PWN; '"])
def test_a_value_that_a_shell_would_run_where_quotes_do_not_hold_is_refused(text, attack, tmp_path):
    with pytest.raises(ConfigError, match=r"^arguments: .* cannot be quoted for a shell whose command has '"):
        words_of(text, shell=True, word=attack)
    words = words_of(text, shell=True, word="runs/a_1.5:x,y")
    subprocess.run(words, capture_output=True, check=False, timeout=20, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


ARGUMENTS = st.dictionaries(
    st.from_regex(r"[a-zA-Z]\w*", fullmatch=True), st.text().filter(lambda text: "\0" not in text)
)


@given(ARGUMENTS)
@example({"word": "$(touch PWN)", "other": "'; touch PWN; '`touch PWN`"})
def test_nothing_is_lost_on_the_way_to_the_simulation(arguments):
    """Any text arrives as it is, and no shell makes something of it."""
    try:
        arguments = checked(arguments)
        words = words_of([sys.executable], **arguments)
        for value in arguments.values():
            value.encode()
    except (ConfigError, UnicodeEncodeError):
        return
    expected = [*AFTER, *(f"--{name}={value}" for name, value in arguments.items())]
    assert words[1:] == expected
    for text, sent in (("printf '%s\\0'", expected), ("printf '%s\\0' {arguments}", [*expected[2:], *AFTER])):
        words = words_of(text, shell=True, **arguments)
        assert words[:2] == SHELL
        printed = subprocess.run(words, capture_output=True, check=True, timeout=120).stdout
        assert printed.decode().split("\0")[:-1] == sent


def test_names_may_have_dashes_and_values_be_numpy_s():
    given_ones = {"--simTime": np.float64(2.5), "n": np.int64(3), "on": np.True_}
    assert checked(given_ones) == {"simTime": 2.5, "n": 3, "on": True}


QUOTED = r"command: \{\w+\} stands within quotes or after a backslash, expected it outside"


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        ("", {}, r"command: '', expected a text or a list of words$"),
        (["true", 3], {}, r"command: \['true', 3\], expected"),
        ("no-such-program -v", {}, r"command: there is no program 'no-such-program'$"),
        ("  ", {}, r"command: '  ', expected a text or a list of words$"),
        ("true 'x", {}, r"command: \"true 'x\" cannot be split into words: No closing quotation$"),
        (["true"], {"shell": True}, r"shell: True, but the command is \['true'\], expected a text for the shell$"),
        *(
            (text, {"shell": True}, QUOTED)
            for text in ('sh -c "it {port} {arguments}"', "echo '{port}'", "echo \\{port}", 'echo "a" "{seed}"')
        ),
        (["true", "{port}", "{a}"], {"a": 1, "b": 2}, r"arguments: --b=2 has no place in the command, where \{argumen"),
        ("true", {"a b": 1}, r"arguments: 'a b' is not a name of an argument$"),
        ("true", {"--simSeed": 1}, r"arguments: 'simSeed' is set for each run and cannot be given here$"),
        ("true", {"rates": [1, 2]}, r"arguments: rates is \[1, 2\], expected a text, a number, true or false$"),
    ],
)
def test_commands_and_arguments_that_cannot_be(command, options, text):
    with pytest.raises(ConfigError, match=f"^{text}"):
        words_of(command, **options)


@pytest.mark.parametrize(("arguments", "text"), [({3: 1}, "3 is not a name of"), ([1], r"\[1\], expected a mapping")])
def test_arguments_of_another_type(arguments, text):
    with pytest.raises(ConfigError, match=f"^arguments: {text}"):
        checked(arguments)


def test_a_program_is_looked_for_where_it_will_run(tmp_path):
    with pytest.raises(ConfigError, match=f"^command: there is no program './ns3' in {tmp_path}$"):
        CommandLine(["./ns3"], tmp_path)
    (tmp_path / "ns3").touch(0o755)
    assert CommandLine(["./ns3"], tmp_path).words(1, 2, {})[0] == "./ns3"
