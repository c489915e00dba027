/* SPDX-License-Identifier: MIT */
/*
** The clock of every measurement: CLOCK_MONOTONIC_RAW, which no time daemon slews; and the
** processor time of a thread.
*/
#include <time.h>

#include "base/base.h"

int64_t rg_clock_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t rg_clock_thread_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
