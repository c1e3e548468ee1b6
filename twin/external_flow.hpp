// SPDX-License-Identifier: GPL-2.0-only
//
// An external flow as the engine holds it: its stack and its port.
#ifndef BBRGYM_TWIN_EXTERNAL_FLOW_HPP
#define BBRGYM_TWIN_EXTERNAL_FLOW_HPP

#include "external_flow.h"

#include <cstdint>
#include <functional>
#include <string>

namespace bbrgym
{

/** Opens the stack of that name; throws if it cannot. Set by who knows some; by itself there is none. */
using OpenStack = std::function<void(const std::string& name, const bbrgym_facts&, const bbrgym_port&, bbrgym_stack&)>;
OpenStack& StackOpener();

/** Opens a stack of a shared object by its `bbrgym_open_stack`. std::runtime_error: it cannot be loaded or opened. */
void OpenLibrary(const std::string& path, const bbrgym_facts& facts, const bbrgym_port& port, bbrgym_stack& stack);

struct ExternalFlow
{
    bbrgym_port port{};
    bbrgym_stack stack{.overhead_bytes = 28};

    ExternalFlow() = default;
    ExternalFlow(const ExternalFlow&) = delete;
    ExternalFlow& operator=(const ExternalFlow&) = delete;
    ~ExternalFlow()
    {
        if (stack.close != nullptr)
        {
            stack.close(stack.self);
        }
    }
};

} // namespace bbrgym

#endif
