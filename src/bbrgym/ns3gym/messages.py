# SPDX-License-Identifier: GPL-2.0-only
"""The message classes of messages.proto, and their strict reading.

They are made from messages.binpb, which the build writes, in a pool of their own: so ns3-gym's `messages_pb2` may be
imported in the same process, and protoc and the protobuf package need not be of the same version.
"""

from __future__ import annotations

from enum import IntEnum
from importlib import resources
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from bbrgym.ns3gym.errors import ProtocolError

Message: TypeAlias = Any
"""An instance of one of the classes below; protobuf makes them at run time, so a type checker knows none."""

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
    """The message of a class in some bytes.

    Raises:
        ProtocolError: they are none, or those of another message: protobuf itself takes a field whose number it knows
            and whose type is another's for an unknown one.
    """
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"{_at(where)}{len(data)} bytes are no {kind.DESCRIPTOR.name}: {error}") from error
    refuse_misfits(message, where)
    return message


def refuse_misfits(message: Message, where: str = "") -> None:
    """Refuses a message that has a field of a known number and another type; numbers that are not known may come.

    Not what lies within it.
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
    """Puts a message into a field of type google.protobuf.Any."""
    put(holder, type(message), message.SerializeToString())


def put(holder: Message, kind: Any, data: bytes) -> None:
    """Puts the bytes of a message of a class into a field of type google.protobuf.Any."""
    holder.type_url = _URLS[kind]
    holder.value = data


def parse_any(kind: Any, holder: Message, where: str) -> Message:
    """The message of a class in a field of type google.protobuf.Any.

    Raises:
        ProtocolError: it holds another one, or none.
    """
    if not holds(holder, kind):
        held = repr(holder.type_url) if holder.type_url else "nothing"
        raise ProtocolError(f"{_at(where)}is {held}, expected a {kind.DESCRIPTOR.full_name}")
    return parse(kind, holder.value, where)


def holds(holder: Message, kind: Any) -> bool:
    """Whether a field of type google.protobuf.Any says that it holds a message of a class."""
    url = holder.type_url
    return bool(url == _URLS[kind] or url.rpartition("/")[2] == kind.DESCRIPTOR.full_name)  # any host may stand before


def _at(where: str) -> str:
    return f"{where}: " if where else ""


_URLS: dict[Any, str] = {
    kind: _URL + kind.DESCRIPTOR.full_name
    for kind in (
        *(DiscreteSpace, BoxSpace, TupleSpace, DictSpace),
        *(DiscreteDataContainer, BoxDataContainer, TupleDataContainer, DictDataContainer),
    )
}
