// SPDX-License-Identifier: MIT
//
// Who looks on at what the devices of the stand-in are asked for and do, as CUPTI does on a real
// one: the stand-in for it (fakecupti.cpp) is a library of its own, opened by its name.
#include "fakecuda.h"

namespace fake
{

static rgsim_watcher watcher; // nobody's functions are null

bool is_watched(void)
{
  return watcher.asked != nullptr;
}

std::function<void()> watched(const rgsim_asked &what, std::function<void()> run)
{
  if (!watcher.asked) return run;
  rgsim_watcher who = watcher;
  uint64_t number = who.asked(&what);
  return [who, number, run] {
    who.began(number);
    run();
    who.ended(number);
  };
}

} // namespace fake

extern "C" void rgsim_watch(const rgsim_watcher *who)
{
  fake::Lock lock;
  fake::watcher = who ? *who : rgsim_watcher();
}
