// SPDX-License-Identifier: MIT
//
// Kernels of the stand-in that are to go wrong, by name, as a device would notice: when they run.
//
//   RG_SIM_FAULT=text   a kernel whose name holds this text accesses memory that is not its own: it
//                       does nothing, and every call after it fails
//   RG_SIM_FAULT_ERROR=n  with this error of the runtime, by number; 700: an illegal address
#include "fakecuda.h"

#include <cstdlib>
#include <map>
#include <string>

namespace fake
{

cudaError_t fault_of(const void *kernel)
{
  const char *text = getenv("RG_SIM_FAULT");
  const char *number = getenv("RG_SIM_FAULT_ERROR");
  if (!text || !*text) return cudaSuccess;
  static auto &known = *new std::map<const void *, std::string>;
  auto found = known.find(kernel);
  if (found == known.end()) found = known.emplace(kernel, kernel_name(kernel)).first;
  if (found->second.find(text) == std::string::npos) return cudaSuccess;
  return number && *number ? static_cast<cudaError_t>(atoi(number)) : cudaErrorIllegalAddress;
}

} // namespace fake
