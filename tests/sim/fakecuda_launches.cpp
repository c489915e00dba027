// SPDX-License-Identifier: MIT
//
// How kernels were launched, for the table of what they leave of a multiprocessor
// (scripts/gpu/kernels.lua): the launch configuration is chosen by host code, so only a run knows it.
//
//   RG_SIM_LAUNCHES=file   a line is added for each kernel when the process ends: the threads of its
//                          largest block, the bytes of its largest dynamic shared memory, its name
#include "fakecuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace fake
{

namespace
{

struct Launches {
  struct Largest {
    unsigned threads = 0;
    size_t smem = 0;
  };
  const char *path = getenv("RG_SIM_LAUNCHES");
  std::map<const void *, Largest> of;

  ~Launches()
  {
    if (of.empty()) return;
    FILE *file = fopen(path, "a");
    if (!file) return;
    std::string text; // in one write: several processes may end at once
    for (const auto &[kernel, largest] : of) {
      text += std::to_string(largest.threads) + '\t' + std::to_string(largest.smem) + '\t' +
              kernel_name(kernel) + '\n';
    }
    setvbuf(file, nullptr, _IOFBF, text.size() + 1);
    fwrite(text.data(), 1, text.size(), file);
    fclose(file);
  }
};

} // namespace

void count_launch(const void *kernel, dim3 block, size_t smem)
{
  static Launches launches;

  if (!launches.path || !*launches.path) return;
  Launches::Largest &largest = launches.of[kernel];
  largest.threads = std::max(largest.threads, block.x * block.y * block.z);
  largest.smem = std::max(largest.smem, smem);
}

} // namespace fake
