# SPDX-License-Identifier: GPL-2.0-only
"""Messages between ns3-gym's agents and simulations, and strict parsers.

Each simulation asks, the agent answers; with stopSimReq in an answer the simulation ends at once::

    SimInitMsg  -> SimInitAck     once
    EnvStateMsg -> EnvActMsg      the state before any action, then one after each; the last has isGameOver

The classes lie in a descriptor pool of their own: ns3-gym's `messages_pb2` can be imported in the same process.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from bbrgym.errors import MissingExtraError
from bbrgym.ns3gym.errors import ProtocolError

try:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet
except ModuleNotFoundError as error:
    raise MissingExtraError("ns3-gym's protocol", "ns3gym", error) from error

Message: TypeAlias = Any
"""An instance of one of the classes below; protobuf creates them at run time, unknown to a type checker."""

SpaceType = IntEnum("SpaceType", ["NoSpaceType", "Discrete", "Box", "Tuple", "Dict"], start=0)
Dtype = IntEnum("Dtype", ["NoDType", "INT", "UINT", "FLOAT", "DOUBLE"], start=0)
Reason = IntEnum("Reason", ["SimulationEnd", "GameOver"], start=0)

_PACKAGE = "ns3opengym"

#: Package, names and the order of fields, which numbers them, are ns3-gym's: they are the wire format. `*`: repeated.
_MESSAGES = """
  SpaceDescription      type:SpaceType space:Any name:string
  DiscreteSpace         n:int32
  BoxSpace              low:float high:float dtype:Dtype shape:uint32*
  TupleSpace            element:SpaceDescription*
  DictSpace             element:SpaceDescription*
  DataContainer         type:SpaceType data:Any name:string
  DiscreteDataContainer data:int32
  BoxDataContainer      dtype:Dtype shape:uint32* intData:int32* uintData:uint32* floatData:float* doubleData:double*
  TupleDataContainer    element:DataContainer*
  DictDataContainer     element:DataContainer*
  SimInitMsg            simProcessId:uint64 wafShellProcessId:uint64 obsSpace:SpaceDescription actSpace:SpaceDescription
  SimInitAck            done:bool stopSimReq:bool
  EnvStateMsg           obsData:DataContainer reward:float isGameOver:bool reason:Reason info:string
  EnvActMsg             actData:DataContainer stopSimReq:bool
"""


def _classes() -> dict[str, Any]:
    """Return the class of each message by name."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="messages.proto", package=_PACKAGE, syntax="proto3", dependency=[any_pb2.DESCRIPTOR.name]
    )
    for enum in (SpaceType, Dtype, Reason):
        described = file.enum_type.add(name=enum.__name__)
        for value in enum:
            described.value.add(name=value.name, number=value.value)
    for line in _MESSAGES.strip().splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for number, one in enumerate(fields, 1):
            field_name, kind = one.rstrip("*").split(":")
            label = field.LABEL_REPEATED if one.endswith("*") else field.LABEL_OPTIONAL
            added = message.field.add(name=field_name, number=number, label=label)
            if kind.islower():
                added.type = field.Type.Value(f"TYPE_{kind.upper()}")
            else:
                added.type_name = ".google.protobuf.Any" if kind == "Any" else f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))
        for message in file.message_type
    }


globals().update(_classes())

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


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
    _check_types(message, where)
    return message


def parse_any(kind: Any, holder: Message, where: str) -> Message:
    """Return the message of a class in a field of type google.protobuf.Any."""
    if not holder.Is(kind.DESCRIPTOR):
        held = repr(holder.type_url) if holder.type_url else "nothing"
        raise ProtocolError(f"{where}: is {held}, expected a {kind.DESCRIPTOR.full_name}")
    return parse(kind, holder.value, where)


def _check_types(message: Message, where: str) -> None:
    known = message.DESCRIPTOR.fields_by_number
    for field in UnknownFieldSet(message):
        if field.field_number in known:
            kind, name = message.DESCRIPTOR.name, known[field.field_number].name
            raise ProtocolError(f"{where}: is not a valid {kind}: its field {name} is of another type")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "DESCRIPTOR") else value:
                _check_types(inner, where)
