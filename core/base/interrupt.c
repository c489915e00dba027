/* SPDX-License-Identifier: MIT */
/*
** The request to stop: one count that a signal handler may raise and every call looks at.
*/
#include <stdatomic.h>

#include "base/base.h"

static _Atomic int32_t pending;

void rg_interrupt_set(void)
{
  atomic_fetch_add_explicit(&pending, 1, memory_order_relaxed);
}

void rg_interrupt_clear(void)
{
  atomic_store_explicit(&pending, 0, memory_order_relaxed);
}

int32_t rg_interrupt_pending(void)
{
  return atomic_load_explicit(&pending, memory_order_relaxed) != 0;
}

int32_t rg_interrupt_count(void)
{
  return atomic_load_explicit(&pending, memory_order_relaxed);
}
