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

_PACKAGE = "ns3opengym"
_URL = "type.googleapis.com/"  # which protobuf's own Pack writes


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
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _enum(name: str) -> Any:
    values = _POOL.FindEnumTypeByName(f"{_PACKAGE}.{name}").values
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


def parse(kind: Any, data: bytes, where: str = "") -> Message:
    """Return the message of a class in some bytes.

    Raises:
        ProtocolError: the bytes are no message, or another one: protobuf itself treats a field with a known number and
            the wrong type as unknown.
    """
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"{_at(where)}{len(data)} bytes are no {kind.DESCRIPTOR.name}: {error}") from error
    refuse_misfits(message, where)
    return message


def refuse_misfits(message: Message, where: str = "") -> None:
    """Raise ProtocolError for a message that has a field with a known number and the wrong type.

    Unknown numbers are allowed. Messages within it are not checked.
    """
    unknown = UnknownFieldSet(message)
    if not len(unknown):
        return
    known = message.DESCRIPTOR.fields_by_number
    for field in unknown:
        if field.field_number in known:
            kind = message.DESCRIPTOR.name
            name = known[field.field_number].name
            raise ProtocolError(f"{_at(where)}this is no {kind}: its field {name} is of another type")


def pack_any(holder: Message, message: Message) -> None:
    """Put a message into a field of type google.protobuf.Any."""
    put(holder, type(message), message.SerializeToString())


def put(holder: Message, kind: Any, data: bytes) -> None:
    """Put the bytes of a message of a class into a field of type google.protobuf.Any."""
    holder.type_url = _URLS[kind]
    holder.value = data


def parse_any(kind: Any, holder: Message, where: str) -> Message:
    """Return the message of a class in a field of type google.protobuf.Any.

    Raises:
        ProtocolError: it holds another message, or none.
    """
    if not holds(holder, kind):
        held = repr(holder.type_url) if holder.type_url else "nothing"
        raise ProtocolError(f"{_at(where)}is {held}, expected a {kind.DESCRIPTOR.full_name}")
    return parse(kind, holder.value, where)


def holds(holder: Message, kind: Any) -> bool:
    """Return whether a field of type google.protobuf.Any declares a message of a class."""
    url = holder.type_url
    return bool(url == _URLS[kind] or url.rpartition("/")[2] == kind.DESCRIPTOR.full_name)  # any host may precede it


def _at(where: str) -> str:
    return f"{where}: " if where else ""


_URLS: dict[Any, str] = {
    kind: _URL + kind.DESCRIPTOR.full_name
    for kind in (
        *(DiscreteSpace, BoxSpace, TupleSpace, DictSpace),
        *(DiscreteDataContainer, BoxDataContainer, TupleDataContainer, DictDataContainer),
    )
}
