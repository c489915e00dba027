/* SPDX-License-Identifier: MIT */
/*
** Counters of the kernel: those of threads that start while they count.  Where the system does not
** let page faults be counted, that it says why.
*/
#include <math.h>
#include <pthread.h>
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

int main(void)
{
  test_counters_of_threads();
  return done();
}
