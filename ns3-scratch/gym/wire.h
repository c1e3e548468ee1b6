// SPDX-License-Identifier: GPL-2.0-only
//
// As much of protobuf's wire format as ns3-gym's messages need: fields one after the other, each a number, a type and a
// value. Messages within a message are written as bytes.
#ifndef BBRGYM_GYM_WIRE_H
#define BBRGYM_GYM_WIRE_H

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bbrgym::wire
{

static_assert(std::endian::native == std::endian::little, "protobuf's fixed-width numbers are little-endian");

enum class Type : uint8_t
{
    VARINT = 0,
    FIXED64 = 1,
    BYTES = 2,
    FIXED32 = 5
};

/** A message that is written field by field. Fields of value 0 may be left out. */
class Writer
{
  public:
    Writer& Number(uint32_t field, uint64_t value)
    {
        Key(field, Type::VARINT);
        Varint(value);
        return *this;
    }

    Writer& Float(uint32_t field, float value)
    {
        Key(field, Type::FIXED32);
        m_bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }

    Writer& Bytes(uint32_t field, std::string_view bytes)
    {
        Key(field, Type::BYTES);
        Varint(bytes.size());
        m_bytes += bytes;
        return *this;
    }

    /** A repeated number, packed. */
    Writer& Numbers(uint32_t field, std::span<const uint32_t> numbers)
    {
        Writer packed;
        for (const uint32_t number : numbers)
        {
            packed.Varint(number);
        }
        return Bytes(field, packed.m_bytes);
    }

    Writer& Doubles(uint32_t field, std::span<const double> numbers)
    {
        return Bytes(field, {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
    }

    const std::string& Message() const { return m_bytes; }

  private:
    void Key(uint32_t field, Type type) { Varint(uint64_t{field} << 3 | static_cast<uint8_t>(type)); }

    void Varint(uint64_t value)
    {
        for (; value >= 0x80; value >>= 7)
        {
            m_bytes += static_cast<char>(value | 0x80);
        }
        m_bytes += static_cast<char>(value);
    }

    std::string m_bytes;
};

/** One field of a message: a number in `value`, or the bytes of anything longer. */
struct Field
{
    uint32_t number;
    Type type;
    uint64_t value;
    std::string_view bytes;
};

/** Reads a message field by field; throws std::invalid_argument where the bytes are not one. */
class Reader
{
  public:
    explicit Reader(std::string_view message)
        : m_rest(message)
    {
    }

    /** The next field; nothing at the end. */
    std::optional<Field> Next()
    {
        if (m_rest.empty())
        {
            return std::nullopt;
        }
        const uint64_t key = Varint();
        Field field{static_cast<uint32_t>(key >> 3), static_cast<Type>(key & 7), 0, {}};
        switch (field.type)
        {
        case Type::VARINT:
            field.value = Varint();
            break;
        case Type::FIXED64:
            field.bytes = Take(8);
            break;
        case Type::BYTES:
            field.bytes = Take(Varint());
            break;
        case Type::FIXED32:
            field.bytes = Take(4);
            break;
        default:
            throw std::invalid_argument("has a field of the wire type " + std::to_string(key & 7));
        }
        return field;
    }

  private:
    uint64_t Varint()
    {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7)
        {
            const auto byte = static_cast<uint8_t>(Take(1).front());
            value |= uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80)
            {
                return value;
            }
        }
        throw std::invalid_argument("has a number of more than 64 bits");
    }

    std::string_view Take(uint64_t bytes)
    {
        if (bytes > m_rest.size())
        {
            throw std::invalid_argument("ends within a field");
        }
        const std::string_view taken = m_rest.substr(0, bytes);
        m_rest.remove_prefix(bytes);
        return taken;
    }

    std::string_view m_rest;
};

/** The last field of a message with a number and a type, which is the one that counts; zero or empty if there is none. */
inline Field
Last(std::string_view message, uint32_t number, Type type)
{
    Field last{number, type, 0, {}};
    Reader reader(message);
    while (const auto field = reader.Next())
    {
        if (field->number == number && field->type == type)
        {
            last = *field;
        }
    }
    return last;
}

} // namespace bbrgym::wire

#endif
