// SPDX-License-Identifier: GPL-2.0-only
//
// A file descriptor with one owner, and the errors of system calls.
#ifndef BBRGYM_LINUX_DESCRIPTOR_HPP
#define BBRGYM_LINUX_DESCRIPTOR_HPP

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace bbrgym
{

class Descriptor
{
  public:
    Descriptor() = default;
    explicit Descriptor(int fd) : m_fd(fd) {}
    ~Descriptor() { Reset(); }
    Descriptor(Descriptor&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept
    {
        if (this != &other)
        {
            Reset();
            m_fd = std::exchange(other.m_fd, -1);
        }
        return *this;
    }

    int Get() const { return m_fd; }
    explicit operator bool() const { return m_fd >= 0; }

    void Reset()
    {
        if (m_fd >= 0)
        {
            close(std::exchange(m_fd, -1));
        }
    }

  private:
    int m_fd = -1;
};

/** Throws std::system_error with errno and what was tried. */
[[noreturn]] inline void
ThrowErrno(const std::string& tried)
{
    throw std::system_error(errno, std::generic_category(), tried);
}

/** The result of a system call, unless it failed. */
inline int
Checked(int result, const std::string& tried)
{
    if (result < 0)
    {
        ThrowErrno(tried);
    }
    return result;
}

} // namespace bbrgym

#endif
