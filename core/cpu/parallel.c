/* SPDX-License-Identifier: MIT */
/*
** Work spread over OpenMP's threads.  Which items there are is up to the caller and must not depend
** on the number of threads: then results do not either.
*/
#include <omp.h>

#include "cpu/cpu.h"

rg_status rg_parallel(int32_t threads, int64_t n, rg_job *job, void *work)
{
  bool done = true;

  if (threads > n) {
    threads = (int32_t)n;
  }
  if (threads <= 1) {
    done = job(work, 0, n);
  } else {
    rg_waits_look();
#pragma omp parallel num_threads(threads) reduction(&& : done)
    {
      int64_t me = omp_get_thread_num();
      int64_t all = omp_get_num_threads();

      if (me > 0) {
        rg_signals_elsewhere();
      }
      done = job(work, n * me / all, n * (me + 1) / all);
    }
  }
  return done ? RG_OK : rg_fail(RG_EINTR, "interrupted");
}
