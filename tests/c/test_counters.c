/* SPDX-License-Identifier: MIT */
/*
** Counters of the kernel: those of threads that start while they count, and those of operations.
** Where the system does not let page faults be counted, that it says why.
*/
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "measure/measure.h"
#include "tap.h"

enum { PAGES = 300 };

static void *touch(void *memory)
{
  for (long i = 0; i < PAGES; i++) {
    ((volatile char *)memory)[i * sysconf(_SC_PAGESIZE)] = 1;
  }
  return NULL;
}

/* Page faults of a thread that starts while they are counted, and of one before and behind it. */
static void test_counters_of_threads(void)
{
  const size_t bytes = (size_t)PAGES * (size_t)sysconf(_SC_PAGESIZE);
  rg_counters *counters = NULL;
  rg_counter faults;
  double counted[3];

  if (!is_status(rg_counters_new(&counters), RG_OK, "counters")) {
    return;
  }
  for (int i = 0; i < 3; i++) {
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;

    if (pages == MAP_FAILED || madvise(pages, bytes, MADV_NOHUGEPAGE) != 0) {
      tap_bail("no pages");
    }
    rg_counters_count(counters, i == 1);
    if (pthread_create(&thread, NULL, touch, pages) != 0) {
      tap_bail("no thread");
    }
    (void)pthread_join(thread, NULL);
    rg_counters_count(counters, 0);
    is_status(rg_counters_read(counters, RG_COUNTER_PAGE_FAULTS, &faults), RG_OK, "read");
    counted[i] = faults.value;
    (void)munmap(pages, bytes);
  }
  if (isnan(counted[1])) {
    ok(faults.reason[0] != '\0', "what is not counted has its reason");
  } else {
    close_to(counted[0], 0, 0, "nothing is counted before");
    ok(counted[1] >= PAGES, "a thread that starts meanwhile counts");
    close_to(counted[2], counted[1], 0, "and nothing behind it");
  }
  rg_counters_release(counters);
}

/* Calls as they begin and end, told by hand: which of them are an operation's. */
static void test_whose_calls(void)
{
  rg_counters *counters = NULL;
  rg_operation_counts of = { NULL };

  if (!is_status(rg_counters_new(&counters), RG_OK, "counters")) {
    return;
  }
  rg_counters_by_operation(counters, 1);
  rg_counters_count(counters, 1);
  rg_probe *probe = rg_ring_probe;

  if (probe == NULL) {
    tap_bail("nobody is told of calls");
  }
  probe->at(probe, "ends only");
  probe->at(probe, NULL);
  probe->at(probe, NULL);
  probe->at(probe, "inner");
  probe->at(probe, "outer");
  probe->at(probe, NULL);
  probe->at(probe, "inner");
  probe->at(probe, NULL);
  rg_counters_count(counters, 0);
  ok(rg_ring_probe == NULL, "nobody is told while they rest");
  rg_counters_count(counters, 1);
  probe->at(probe, "begun before they rested");
  is_status(rg_counters_operation(counters, 0, &of), RG_OK, "the first");
  ok(of.name != NULL && strcmp(of.name, "inner") == 0, "is the call within another");
  is_int(of.n_calls, 2, "and one by itself");
  is_status(rg_counters_operation(counters, 1, &of), RG_OK, "another");
  ok(of.name == NULL, "is none");
  rg_counters_release(counters);
  ok(rg_ring_probe == NULL, "nobody is told behind them");
}

int main(void)
{
  test_counters_of_threads();
  test_whose_calls();
  return done();
}
