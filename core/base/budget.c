/* SPDX-License-Identifier: MIT */
/*
** What a thread may still ask for.
*/
#include "base/base.h"
#include "base/budget.h"

enum { NO_BUDGET = -1 };

static _Thread_local int64_t left = NO_BUDGET;

int64_t rg_memory_budget(int64_t bytes)
{
  const int64_t before = left;

  left = bytes >= 0 ? bytes : NO_BUDGET;
  return before;
}

rg_status rg_budget_take(int32_t device, int64_t bytes)
{
  if (left < 0 || device != RG_CPU_DEVICE) {
    return RG_OK;
  }
  if (bytes > left) {
    return rg_fail(RG_ENOMEM,
                   "memory: %.4g MB more would pass the budget of this work (%.4g MB left)",
                   (double)bytes / 1048576, (double)left / 1048576);
  }
  left -= bytes;
  return RG_OK;
}
