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

void rg_clock_facts_from(int64_t *at, int32_t n, rg_clock_facts *out)
{
  const double mean_ns = (double)(at[n - 1] - at[0]) / (n - 1);
  int64_t *step = at;
  const int32_t n_steps = n - 1;
  int32_t i;

  for (i = 0; i < n_steps; i++) {
    step[i] = at[i + 1] - at[i];
  }
  qsort(step, (size_t)n_steps, sizeof(step[0]), by_size);
  out->overhead_ns = (double)step[n_steps / 2];
  /* a clock coarser than one reading shows mostly steps of 0: the mean is then the better answer */
  if (step[n_steps / 2] <= 0) {
    out->overhead_ns = mean_ns;
  }
  for (i = 0; i < n_steps && step[i] <= 0; i++) {
  }
  out->resolution_ns = i < n_steps ? (double)step[i] : 1e6;
}

rg_status rg_clock_facts_of(rg_clock_facts *out)
{
  int64_t at[READINGS];

  for (int i = 0; i < READINGS; i++) {
    at[i] = rg_clock_ns();
  }
  *out = (rg_clock_facts){ .name = "CLOCK_MONOTONIC_RAW" };
  rg_clock_facts_from(at, READINGS, out);
  return RG_OK;
}
