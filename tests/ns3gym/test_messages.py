# SPDX-License-Identifier: GPL-2.0-only
"""The messages are ns3-gym's, bit for bit, and are read strictly."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import CONTAINERS, DESCRIBED, SAID, any_messages, mutations

from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError

EVERY = (*SAID, *DESCRIBED, pb.DataContainer, *CONTAINERS)


def test_the_bytes_are_those_of_ns3_gym() -> None:
    # Written by hand from field numbers and wire types: (number << 3 | type), then the length of what follows.
    box = pb.BoxDataContainer(dtype=pb.Dtype.FLOAT, shape=[2], floatData=[1.0, -2.0])
    box_bytes = bytes.fromhex("0803 1201 02 2a08 0000803f 000000c0")
    assert box.SerializeToString() == box_bytes
    state = pb.EnvStateMsg(reward=1.0, isGameOver=True, reason=pb.Reason.GameOver, info="x")
    state.obsData.type = pb.SpaceType.Box
    state.obsData.data.Pack(box)
    url = b"type.googleapis.com/ns3opengym.BoxDataContainer"
    held = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(box_bytes)]) + box_bytes
    container = b"\x08\x02\x12" + bytes([len(held)]) + held
    expected = b"\x0a" + bytes([len(container)]) + container + bytes.fromhex("15 0000803f 1801 2001 2a01") + b"x"
    assert state.SerializeToString() == expected
    init = pb.SimInitMsg(simProcessId=300, wafShellProcessId=1)
    assert init.SerializeToString() == bytes.fromhex("08ac02 1001")
    assert pb.SimInitAck(done=True, stopSimReq=True).SerializeToString() == bytes.fromhex("0801 1001")
    assert pb.EnvActMsg(stopSimReq=True).SerializeToString() == bytes.fromhex("1001")
    assert pb.DiscreteDataContainer(data=-1).SerializeToString() == bytes.fromhex("08ffffffffffffffffff01")


def test_ns3_gyms_own_module_may_be_imported_too() -> None:
    """Its messages_pb2 puts the same names into protobuf's default pool."""
    code = """
from importlib import resources
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
described = (resources.files("bbrgym.ns3gym") / "messages.binpb").read_bytes()
{before}
pool = descriptor_pool.Default()
for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
    if file.package == "ns3opengym":
        from google.protobuf import any_pb2
        pool.AddSerializedFile(file.SerializeToString())
theirs = message_factory.GetMessageClass(pool.FindMessageTypeByName("ns3opengym.SimInitMsg"))
from bbrgym.ns3gym import messages
assert theirs is not messages.SimInitMsg
assert messages.SimInitMsg.FromString(theirs(simProcessId=7).SerializeToString()).simProcessId == 7
"""
    for before in ("", "import bbrgym.ns3gym.messages"):
        subprocess.run([sys.executable, "-c", code.format(before=before)], check=True, timeout=120)


INIT = pb.SimInitMsg(simProcessId=1, obsSpace=pb.SpaceDescription(type=1))
STATE = pb.EnvStateMsg(obsData=pb.DataContainer(type=1), reward=1.0)
ACK = pb.SimInitAck(done=True)
ACTION = pb.EnvActMsg(actData=pb.DataContainer(type=1))


@pytest.mark.parametrize(
    ("sent", "due"),
    [(INIT, pb.EnvStateMsg), (STATE, pb.SimInitMsg), (ACK, pb.EnvActMsg), (ACTION, pb.SimInitAck)],
)
def test_another_message_is_refused(sent: pb.Message, due: type) -> None:
    with pytest.raises(ProtocolError, match=f"this is no {due.DESCRIPTOR.name}: its field"):
        pb.parse(due, sent.SerializeToString())


def test_numbers_that_nobody_knows_yet_may_come() -> None:
    newer = pb.SimInitMsg(simProcessId=5).SerializeToString() + b"\x9a\x06\x01x"  # field 99
    assert pb.parse(pb.SimInitMsg, newer).simProcessId == 5


def test_errors_say_where_and_what() -> None:
    with pytest.raises(ProtocolError, match=r"^here: 2 bytes are no EnvActMsg: "):
        pb.parse(pb.EnvActMsg, b"\x0a\xff", "here")
    container = pb.DataContainer(type=1)
    with pytest.raises(ProtocolError, match=r"^here: is nothing, expected a ns3opengym\.BoxDataContainer$"):
        pb.parse_any(pb.BoxDataContainer, container.data, "here")
    container.data.Pack(pb.DiscreteDataContainer())
    with pytest.raises(ProtocolError, match=r"is 'type.googleapis.com/ns3opengym.DiscreteDataContainer', expected"):
        pb.parse_any(pb.BoxDataContainer, container.data, "here")


@settings(max_examples=300)
@given(st.sampled_from(EVERY), st.binary(max_size=100))
def test_any_bytes_are_a_message_or_a_protocol_error(kind: type, data: bytes) -> None:
    _read(kind, data)


@settings(max_examples=300)
@given(st.data())
def test_mutated_messages_are_a_message_or_a_protocol_error(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(EVERY))
    message = data.draw(any_messages(kind))
    assert pb.parse(kind, message.SerializeToString()) == message
    _read(kind, data.draw(mutations(message.SerializeToString())))


def _read(kind: type, data: bytes) -> None:
    try:
        message = pb.parse(kind, data)
    except ProtocolError:
        return
    assert isinstance(message, kind)
