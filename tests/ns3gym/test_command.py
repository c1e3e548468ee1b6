# SPDX-License-Identifier: GPL-2.0-only
import subprocess

import numpy as np
import pytest

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.command import checked, split_command, with_arguments

AFTER = ["--openGymPort=5555", "--simSeed=7"]  # what ns3-gym's simulations understand
ATTACK = {"word": "$(touch PWN)", "other": "a b'; touch PWN"}
ATTACKS = ["--word=$(touch PWN)", "--other=a b'; touch PWN"]


def words_of(command, arguments):
    return with_arguments(split_command(command), 5555, 7, checked(arguments))


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        (["true", "-v"], {"d": 2.5, "quiet": True}, ["true", "-v", *AFTER, "--d=2.5", "--quiet=true"]),
        (["true"], {"--t": np.float64(2.5), "n": np.int64(3)}, ["true", *AFTER, "--t=2.5", "--n=3"]),
        # A value is not a word of the command: what it contains is neither split nor run. Braces stay.
        ('true "a {port}"', ATTACK, ["true", "a {port}", *AFTER, *ATTACKS]),
    ],
)
def test_the_words_to_run(command, arguments, words):
    assert words_of(command, arguments) == words


def test_any_text_arrives_as_it_is_through_a_shell():
    words = words_of(["sh", "-c", "printf '%s\\0' \"$@\"", "sh"], {**ATTACK, "new": "\n'\"`x` \\ \u00e4"})
    printed = subprocess.run(words, capture_output=True, check=True, timeout=120).stdout
    assert printed.decode().split("\0")[:-1] == [*AFTER, *ATTACKS, "--new=\n'\"`x` \\ \u00e4"]


@pytest.mark.parametrize(
    ("command", "arguments", "text"),
    [
        ("", {}, r"command: '', expected a text or a list of words$"),
        (["true", 3], {}, r"command: \['true', 3\], expected"),
        ("no-such-program -v", {}, r"command: there is no program 'no-such-program'$"),
        ("true 'x", {}, r"command: \"true 'x\" cannot be split into words: No closing quotation$"),
        ("true", {"a b": 1}, r"arguments: 'a b' is not a name of an argument$"),
        ("true", {"--simSeed": 1}, r"arguments: 'simSeed' is set for each run and cannot be given here$"),
        ("true", {"rates": [1, 2]}, r"arguments: rates is \[1, 2\], expected a text, a number, true or false$"),
        ("true", {3: 1}, "arguments: 3 is not a name of an argument$"),
        ("true", [1], r"arguments: \[1\], expected a mapping"),
    ],
)
def test_commands_and_arguments_that_cannot_be(command, arguments, text):
    with pytest.raises(ConfigError, match=f"^{text}"):
        words_of(command, arguments)


def test_a_program_is_looked_for_where_it_will_run(tmp_path):
    with pytest.raises(ConfigError, match=f"^command: there is no program './ns3' in {tmp_path}$"):
        split_command(["./ns3"], tmp_path)
    (tmp_path / "ns3").touch(0o755)
    assert split_command(["./ns3"], tmp_path) == ["./ns3"]
