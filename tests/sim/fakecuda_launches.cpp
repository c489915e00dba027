// SPDX-License-Identifier: MIT
//
// How kernels were launched, for the table of what they leave of a multiprocessor
// (scripts/gpu/kernels.lua): the launch configuration is chosen by host code, so only a run knows it.
//
//   RG_SIM_LAUNCHES=file   a line is added for each kernel when the process ends: the threads of its
//                          largest block, the bytes of its largest dynamic shared memory, its name
//
// Tests ask for the launches since they asked last (rgsim_launched): which kernel host code takes,
// and over how many blocks, changes no result where kernels go on until nothing is left.
#include "fakecuda.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
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

struct Launch {
  const void *kernel;
  dim3 grid, block;
  size_t smem;
};
constexpr size_t MOST = 256; // of them are remembered
std::deque<Launch> latest;

} // namespace

void count_launch(const void *kernel, dim3 grid, dim3 block, size_t smem)
{
  static Launches launches;

  if (latest.size() == MOST) latest.pop_front();
  latest.push_back({ kernel, grid, block, smem });
  if (!launches.path || !*launches.path) return;
  Launches::Largest &largest = launches.of[kernel];
  largest.threads = std::max(largest.threads, block.x * block.y * block.z);
  largest.smem = std::max(largest.smem, smem);
}

} // namespace fake

using namespace fake;

extern "C" size_t rgsim_launched(char *text, size_t room)
{
  Lock lock;
  std::string all;
  for (const Launch &l : latest) {
    char sizes[128];
    snprintf(sizes, sizeof sizes, "%u %u %u\t%u %u %u\t%zu\t", l.grid.x, l.grid.y, l.grid.z,
             l.block.x, l.block.y, l.block.z, l.smem);
    all += sizes + kernel_name(l.kernel) + '\n';
  }
  latest.clear();
  snprintf(text, room, "%s", all.c_str());
  return all.size();
}
