# SPDX-License-Identifier: GPL-2.0-only
"""The message classes of messages.proto, and functions that parse them strictly.

The classes are created from messages.binpb, which the build writes, in a descriptor pool of their own: so ns3-gym's
`messages_pb2` can be imported in the same process, and the versions of protoc and of the protobuf package may differ.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import resources
from typing import Any, TypeAlias

from bbrgym.errors import MissingExtraError
from bbrgym.ns3gym.errors import ProtocolError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet
except ModuleNotFoundError as error:
    raise MissingExtraError("ns3-gym's protocol", "ns3gym", error) from error

Message: TypeAlias = Any
"""An instance of one of the classes below; protobuf creates them at run time, unknown to a type checker."""


def _pool() -> descriptor_pool.DescriptorPool:
    try:
        described = (resources.files("bbrgym.ns3gym") / "messages.binpb").read_bytes()
    except FileNotFoundError as error:
        raise ImportError("bbrgym/ns3gym/messages.binpb is missing: it comes with the build") from error
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        pool.Add(file)
    return pool


_POOL = _pool()


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"ns3opengym.{name}"))


def _enum(name: str) -> Any:
    values = _POOL.FindEnumTypeByName(f"ns3opengym.{name}").values
    return IntEnum(name.rsplit(".", 1)[-1], [(value.name, value.number) for value in values])


SpaceType = _enum("SpaceType")
Dtype = _enum("Dtype")
Reason = _enum("EnvStateMsg.Reason")

SpaceDescription = _class("SpaceDescription")
DiscreteSpace = _class("DiscreteSpace")
BoxSpace = _class("BoxSpace")
TupleSpace = _class("TupleSpace")
DictSpace = _class("DictSpace")

DataContainer = _class("DataContainer")
DiscreteDataContainer = _class("DiscreteDataContainer")
BoxDataContainer = _class("BoxDataContainer")
TupleDataContainer = _class("TupleDataContainer")
DictDataContainer = _class("DictDataContainer")

SimInitMsg = _class("SimInitMsg")
SimInitAck = _class("SimInitAck")
EnvStateMsg = _class("EnvStateMsg")
EnvActMsg = _class("EnvActMsg")


# ---- reading --------------------------------------------------------------------------------------------------------


def parse(kind: Any, data: bytes, where: str = "the message") -> Message:
    """Return the message of a class in some bytes.

    protobuf itself takes a field with a known number and the wrong type for an unknown one.

    Raises:
        ProtocolError: the bytes hold another message, or none. Unknown numbers are allowed.
    """
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"{where}: {len(data)} bytes cannot be read as {kind.DESCRIPTOR.name}: {error}") from error
    _refuse_misfits(message, where)
    return message


def parse_any(kind: Any, holder: Message, where: str) -> Message:
    """Return the message of a class in a field of type google.protobuf.Any.

    Raises:
        ProtocolError: it holds another message, or none.
    """
    if not holder.Is(kind.DESCRIPTOR):
        held = repr(holder.type_url) if holder.type_url else "nothing"
        raise ProtocolError(f"{where}: is {held}, expected a {kind.DESCRIPTOR.full_name}")
    return parse(kind, holder.value, where)


def _refuse_misfits(message: Message, where: str) -> None:
    known = message.DESCRIPTOR.fields_by_number
    for field in UnknownFieldSet(message):
        if field.field_number in known:
            kind, name = message.DESCRIPTOR.name, known[field.field_number].name
            raise ProtocolError(f"{where}: is not a valid {kind}: its field {name} is of another type")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "DESCRIPTOR") else value:
                _refuse_misfits(inner, where)
