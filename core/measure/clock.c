/* SPDX-License-Identifier: MIT */
/*
** What the clock can resolve.  A window has to be 10^4 times the cost of reading the clock and 10^3
** times its step, so both are measured instead of believed.
*/
#include <stdlib.h>

#include "measure/measure.h"

enum { READINGS = 1000 };

static int by_size(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a;
  int64_t y = *(const int64_t *)b;

  return (x > y) - (x < y);
}

rg_status rg_clock_facts_of(rg_clock_facts *out)
{
  int64_t at[READINGS];
  int64_t step[READINGS - 1];
  rg_clock_facts facts = { .name = "CLOCK_MONOTONIC_RAW" };
  int i;

  for (i = 0; i < READINGS; i++) {
    at[i] = rg_clock_ns();
  }
  for (i = 0; i < READINGS - 1; i++) {
    step[i] = at[i + 1] - at[i];
  }
  qsort(step, READINGS - 1, sizeof(step[0]), by_size);
  facts.overhead_ns = (double)step[(READINGS - 1) / 2];
  /* a clock coarser than one reading shows mostly steps of 0: the mean is then the better answer */
  if (step[(READINGS - 1) / 2] <= 0) {
    facts.overhead_ns = (double)(at[READINGS - 1] - at[0]) / (READINGS - 1);
  }
  for (i = 0; i < READINGS - 1 && step[i] <= 0; i++) {
  }
  facts.resolution_ns = i < READINGS - 1 ? (double)step[i] : 1e6;
  *out = facts;
  return RG_OK;
}
