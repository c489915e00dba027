// SPDX-License-Identifier: MIT
//
// Kernels of the stand-in that are to go wrong, by name, as a device would notice: when they run.
//
//   RG_SIM_FAULT=text   a kernel whose name holds this text accesses memory that is not its own: it
//                       does nothing, and every call after it fails
#include "fakecuda.h"

#include <cstdlib>
#include <map>
#include <string>

namespace fake
{

bool is_to_fault(const void *kernel)
{
  const char *text = getenv("RG_SIM_FAULT");
  if (!text || !*text) return false;
  static auto &known = *new std::map<const void *, std::string>;
  auto found = known.find(kernel);
  if (found == known.end()) found = known.emplace(kernel, kernel_name(kernel)).first;
  return found->second.find(text) != std::string::npos;
}

} // namespace fake
