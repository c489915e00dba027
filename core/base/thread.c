/* SPDX-License-Identifier: MIT */
/*
** Compute threads: OpenMP's pool, how many of it to use, where they run, and before whom.
*/
#include <dirent.h>
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base.h"

/* Below this many operations one thread is faster: waking the second costs about as much as a
** million of them (docs/why/decisions.md). */
static const double one_thread_below = 1e6;

static _Atomic int32_t n_threads;

/* What this process was given; read before the first thread is bound, which then sees less. */
static cpu_set_t given;
static int32_t n_given;

__attribute__((constructor)) static void read_given(void)
{
  if (sched_getaffinity(0, sizeof(given), &given) == 0) {
    n_given = CPU_COUNT(&given);
  } else {
    memset(&given, 0xff, sizeof(given));
  }
}

int32_t rg_processors(void)
{
  return n_given > 0 ? n_given : 1;
}

void rg_spin_wait(rg_spin *lock)
{
  for (int32_t n = 1; atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0; n++) {
    if (n % 64 == 0) {
      sched_yield(); /* it may hold memory of the system's just now, or not be running */
    }
  }
}

int32_t rg_threads(void)
{
  int32_t n = atomic_load_explicit(&n_threads, memory_order_relaxed);

  if (n == 0) {
    /* OMP_NUM_THREADS where it is set (F203), else every processor there is */
    n = omp_get_max_threads();
    n = n > 0 ? n : rg_processors();
    atomic_store_explicit(&n_threads, n, memory_order_relaxed);
  }
  return n;
}

rg_status rg_set_threads(int32_t n)
{
  if (n < 0 || n > 1024) {
    return rg_fail(RG_EARG, "threads: %d is not in 0 .. 1024", n);
  }
  n = n == 0 ? rg_processors() : n;
  atomic_store_explicit(&n_threads, n, memory_order_relaxed);
  omp_set_num_threads(n);
  return RG_OK;
}

int32_t rg_threads_for(double operations)
{
  return operations < one_thread_below ? 1 : rg_threads();
}

rg_status rg_set_affinity(const int32_t *cpus, int32_t n)
{
  int32_t refused = -1;
  int reason = 0;
  int threads = rg_threads();

  if (n < 0 || n > 1024 || (n > 0 && cpus == NULL)) {
    return rg_fail(RG_EARG, "affinity: %d processors given", n);
  }
  for (int32_t i = 0; i < n; i++) {
    if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE) {
      return rg_fail(RG_EARG, "affinity: there is no processor %d", cpus[i]);
    }
  }
#pragma omp parallel num_threads(threads)
  {
    int me = omp_get_thread_num();
    cpu_set_t set = given;

    if (n > 0) {
      CPU_ZERO(&set);
      CPU_SET((size_t)cpus[me % n], &set);
    }
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
      int why = errno;
#pragma omp critical(rg_affinity)
      {
        refused = n > 0 ? cpus[me % n] : 0;
        reason = why;
      }
    }
  }
  if (refused >= 0) {
    return rg_fail(RG_ESYS, "affinity: the system refused processor %d: %s", refused,
                   strerror(reason));
  }
  return RG_OK;
}

void rg_as_given(void (*f)(void *), void *argument)
{
  cpu_set_t mine;
  const int known = sched_getaffinity(0, sizeof(mine), &mine) == 0;

  if (known) sched_setaffinity(0, sizeof(given), &given);
  f(argument);
  if (known) sched_setaffinity(0, sizeof(mine), &mine);
}

/* -- Priority ---------------------------------------------------------------- */

int32_t rg_priority(void)
{
  return getpriority(PRIO_PROCESS, 0);
}

/* On Linux a priority is a thread's, so each of them gets it; later ones inherit it. */
rg_status rg_set_priority(int32_t nice)
{
  const struct dirent *entry;
  int why = 0;

  if (nice < -20 || nice > 19) {
    return rg_fail(RG_EARG, "priority: %d is not in -20 .. 19", nice);
  }
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) {
    return rg_fail(RG_ESYS, "priority: /proc/self/task: %s", strerror(errno));
  }
  while ((entry = readdir(tasks)) != NULL) {
    const long id = strtol(entry->d_name, NULL, 10);

    if (id > 0 && setpriority(PRIO_PROCESS, (id_t)id, nice) != 0 && errno != ESRCH) why = errno;
  }
  closedir(tasks);
  if (why != 0) {
    return rg_fail(RG_ESYS, "priority: the system refused %d: %s%s", nice, strerror(why),
                   why == EACCES || why == EPERM ? " (raising it needs CAP_SYS_NICE)" : "");
  }
  return RG_OK;
}
