// SPDX-License-Identifier: GPL-2.0-only
//
// Threads that may not be there: a limit of the user's processes, or of memory for their stacks, refuses them.
#ifndef BBRGYM_WORLD_THREAD_START_HPP
#define BBRGYM_WORLD_THREAD_START_HPP

#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace bbrgym
{

/** Starts a thread. std::runtime_error: the system refuses it; `what` says whose it is. */
template <class Work>
std::thread
StartThread(const std::string& what, Work&& work)
{
    try
    {
        return std::thread(std::forward<Work>(work));
    }
    catch (const std::system_error& error)
    {
        throw std::runtime_error("cannot start " + what + ": " + error.code().message());
    }
}

} // namespace bbrgym

#endif
