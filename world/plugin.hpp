// SPDX-License-Identifier: GPL-2.0-only
//
// Algorithms in one file (cc/plugin.h), compiled to a shared object: variants that are loaded while the program runs.
#ifndef BBRGYM_WORLD_PLUGIN_HPP
#define BBRGYM_WORLD_PLUGIN_HPP

#include "params.hpp"

namespace bbrgym
{

/**
 * Makes the shared object at `path` the variant `name` of this module, in place of one of that name, and returns its
 * index. std::invalid_argument: it is not a plugin of this version, or its table of tunables is wrong.
 */
int LoadPlugin(const std::string& name, const std::string& path);

} // namespace bbrgym

#endif
