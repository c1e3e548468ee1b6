# SPDX-License-Identifier: GPL-2.0-only
import shlex
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.command import CommandLine, checked

SHELL = ["/bin/sh", "-c"]


def words_of(command, *, shell=False, **arguments):
    return CommandLine(command, shell=shell).words(5555, 7, checked(arguments))


def test_what_ns3_gym_s_simulations_understand_comes_last():
    after = ["--openGymPort=5555", "--simSeed=7", "--duration=2.5", "--quiet=true"]
    assert words_of(["true", "-v"], duration=2.5, quiet=True) == ["true", "-v", *after]
    assert words_of("true -v", duration=2.5, quiet=True) == ["true", "-v", *after]
    assert words_of("true -v", shell=True, duration=2.5, quiet=True) == [*SHELL, "true -v " + " ".join(after)]


def test_places_are_filled_and_other_braces_stay():
    words = words_of(["true", "{port}:{seed}", "{who}", "{other}", "${port}", "{}"], who="me")
    assert words == ["true", "5555:7", "me", "{other}", "${port}", "{}"]


def test_a_seed_that_has_a_place_is_not_repeated():
    assert words_of(["true", "{seed}"]) == ["true", "7", "--openGymPort=5555"]


def test_arguments_that_have_a_place_are_not_repeated():
    after = ["--openGymPort=5555", "--simSeed=7"]
    assert words_of(["true", "{arguments}", "-v"], b=2, c="x y") == ["true", "--b=2", "--c=x y", "-v", *after]
    assert words_of("true {arguments}", shell=True, b=2) == [*SHELL, "true --b=2 " + " ".join(after)]


def test_the_arguments_together():
    assert words_of(["true", "{port}", "{arguments}", "{a}"], a=1, b=2, c="x y") == [
        "true",
        "5555",
        "--b=2",
        "--c=x y",
        "1",
    ]
    assert words_of(["true", "run --port={port} {arguments}"], b=2, c=3) == ["true", "run --port=5555 --b=2 --c=3"]
    assert words_of('true run "it --p={port} {arguments}"', b=2, c=3) == ["true", "run", "it --p=5555 --b=2 --c=3"]


def test_a_value_is_no_word_of_the_command():
    """What it contains is neither split nor run, wherever its placeholder stands."""
    attack = {"word": "$(touch PWN)", "other": "a b'; touch PWN"}
    others = ["--word=$(touch PWN)", "--other=a b'; touch PWN"]
    assert words_of("true {port} {arguments}", **attack) == ["true", "5555", *others]
    assert words_of('true {port} "{arguments}"', **attack) == ["true", "5555", *others]
    program = words_of('true run "it {port} {arguments}"', **attack)[2]
    assert shlex.split(program) == ["it", "5555", *others]
    assert words_of('true "--x={word}" {other} {port}', **attack)[1:3] == ["--x=$(touch PWN)", "a b'; touch PWN"]


def test_a_value_does_nothing_to_a_shell(tmp_path):
    attack = {"word": "$(touch PWN)", "other": "'; touch PWN; '`touch PWN`"}
    words = words_of("printf '%s\\0' {port} {word} {arguments}", shell=True, **attack)
    printed = subprocess.run(words, capture_output=True, check=True, timeout=20, cwd=tmp_path).stdout
    assert printed.decode().split("\0")[:-1] == ["5555", attack["word"], f"--other={attack['other']}"]
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    "text", ['sh -c "it {port} {arguments}"', "echo '{port}'", "echo \\{port}", 'echo "a" "{seed}"']
)
def test_no_placeholder_stands_within_a_shell_s_quotes(text):
    with pytest.raises(
        ConfigError, match=r"^command: \{\w+\} stands within quotes or after a backslash, expected it out"
    ):
        words_of(text, shell=True)


def test_an_argument_without_a_place():
    with pytest.raises(ConfigError, match=r"^arguments: --b=2 has no place in the command, where \{arguments\} stands"):
        words_of(["true", "{port}", "{a}"], a=1, b=2)


ARGUMENTS = st.dictionaries(
    st.from_regex(r"[a-zA-Z]\w*", fullmatch=True), st.text().filter(lambda text: "\0" not in text)
)


@given(ARGUMENTS)
def test_nothing_is_lost_on_the_way_to_the_simulation(arguments):
    """Any text arrives as it is, and no shell makes something of it."""
    try:
        arguments = checked(arguments)
        words = words_of([sys.executable], **arguments)
        for value in arguments.values():
            value.encode()
    except (ConfigError, UnicodeEncodeError):
        return
    expected = ["--openGymPort=5555", "--simSeed=7", *(f"--{name}={value}" for name, value in arguments.items())]
    assert words[1:] == expected
    _, _, line = words_of("printf '%s\\0'", shell=True, **arguments)
    printed = subprocess.run([*SHELL, line], capture_output=True, check=True, timeout=120).stdout
    assert printed.decode().split("\0")[:-1] == expected


def test_names_may_have_dashes_and_values_be_numpy_s():
    assert checked({"--simTime": np.float64(2.5), "n": np.int64(3), "on": np.True_}) == {
        "simTime": 2.5,
        "n": 3,
        "on": True,
    }


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("", r"^command: '', expected a text or a list of words$"),
        ([], r"^command: \[\], expected"),
        (["true", 3], r"^command: \['true', 3\], expected"),
        (3, r"^command: 3, expected"),
        ("no-such-program -v", r"^command: there is no program 'no-such-program'$"),
        ("  ", r"^command: '  ', expected a text or a list of words$"),
        ("true 'x", r"^command: \"true 'x\" cannot be split into words: No closing quotation$"),
        (["no-such-program"], r"^command: there is no program 'no-such-program'$"),
    ],
)
def test_a_command_that_cannot_be(command, text):
    with pytest.raises(ConfigError, match=text):
        CommandLine(command)


def test_a_shell_takes_a_text():
    with pytest.raises(
        ConfigError, match=r"^shell: True, but the command is \['true'\], expected a text for the shell$"
    ):
        CommandLine(["true"], shell=True)


def test_a_program_is_looked_for_where_it_will_run(tmp_path):
    with pytest.raises(ConfigError, match=f"^command: there is no program './ns3' in {tmp_path}$"):
        CommandLine(["./ns3"], tmp_path)
    with pytest.raises(ConfigError, match=f"^command: there is no program '{tmp_path}/ns3'$"):
        CommandLine([str(tmp_path / "ns3")])
    (tmp_path / "ns3").touch(0o755)
    assert CommandLine(["./ns3"], tmp_path).words(1, 2, {})[0] == "./ns3"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a b": 1}, r"^arguments: 'a b' is no name of an argument$"),
        ({3: 1}, r"^arguments: 3 is no name of an argument$"),
        ({"--simSeed": 1}, r"^arguments: 'simSeed' is set for each run and cannot be given here$"),
        ({"rates": [1, 2]}, r"^arguments: rates is \[1, 2\], expected a text, a number, true or false$"),
        ([1], r"^arguments: \[1\], expected a mapping"),
    ],
)
def test_arguments_that_cannot_be(arguments, text):
    with pytest.raises(ConfigError, match=text):
        checked(arguments)
