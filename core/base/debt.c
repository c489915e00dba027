/* SPDX-License-Identifier: MIT */
/*
** What a garbage collector is owed: bytes that it does not see, and that only it can free.
*/
#include "base/base.h"

_Thread_local bool rg_memory_collects;

void rg_debt_took(rg_memory *cpu, int64_t bytes)
{
  cpu->debt_bytes += bytes;
}

/*
** What is freed by others than the collector leaves it nothing to find: gradients, and tensors that
** were saved for a backward pass, are most of what a training step asks for.  Who watches memory
** looks where debt is paid: what is cached, and what other programs take, grows while all is freed
** at once.
*/
void rg_debt_gave(rg_memory *cpu, int64_t bytes)
{
  if (rg_memory_collects) {
    return;
  }
  if (cpu->is_watched != 0) {
    cpu->freed_bytes += bytes;
  } else {
    cpu->debt_bytes = rg_max_i64(cpu->debt_bytes - bytes, 0);
  }
}
