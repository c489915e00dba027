// SPDX-License-Identifier: MIT
//
// Kernels of the stand-in that are to go wrong, by name, as a device would notice: when they run.
//
//   RG_SIM_FAULT=text   a kernel whose name holds this text accesses memory that is not its own: it
//                       does nothing, and every call after it fails
//   RG_SIM_FAULT_ERROR=n  with this error of the runtime, by number; 700: an illegal address
//
// And calls about events that are refused, once:
//
//   RG_SIM_REFUSE=name:n  call n of this function from here on, from 1, does nothing and fails with
//                         cudaErrorNotPermitted; what was asked for before it runs, and so does
//                         what is asked for behind it
#include "fakecuda.h"

#include <cstdlib>
#include <cstring>
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

bool refused(const char *call)
{
  static auto &setting = *new std::string;
  static long calls;
  const char *s = getenv("RG_SIM_REFUSE");
  const char *colon = s ? strchr(s, ':') : nullptr;
  if (!colon) {
    setting.clear();
    return false;
  }
  // Another setting starts the count anew.
  if (setting != s) {
    setting = s;
    calls = 0;
  }
  return setting.compare(0, static_cast<size_t>(colon - s), call) == 0 &&
         ++calls == atol(colon + 1);
}

} // namespace fake
