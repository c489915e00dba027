/* SPDX-License-Identifier: MIT */
/*
** How compute threads wait for each other.
**
** OpenMP's threads spin for milliseconds before they sleep, which is fastest where each has a
** processor to itself.  Beside other programs the one that spins takes the processor that the one
** it waits for needs: two threads took ten to thirty times as long as one.  Sleeping costs a
** wake-up each time instead, twice the time of a small product on two processors of one's own, and
** pays from about two neighbours on (results/kept/waits.txt).
**
** How long they spin libgomp reads when it is loaded; at each wait it only looks whether there are
** more OpenMP threads than processors, and then spins 100 times and sleeps (its manual,
** GOMP_SPINCOUNT).  So while the scheduler keeps our thread waiting for a processor a team of
** threads is held that does nothing: with it there are more.
*/
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

enum {
  LOOK_NS = 10000000, /* between two looks: one costs 2 us */
  LONG_NS = 200000000 /* while somebody did not compute for so long nothing was seen */
};

/* Shares of the time that a thread was ready and did not run, averaged over the last third of a
** second: above the one threads sleep, below the other they spin again.  Two threads of ours on two
** processors see 0.001 where they spin and 0.02 where they sleep, 0.31 and 0.26 beside one
** neighbour, 0.51 and 0.34 beside two, 0.68 and 0.41 beside four. */
static const double busy = 0.5;
static const double calm = 0.3;
static const double average_ns = 3e8;

/* -- The idle team ------------------------------------------------------------------------- */

static sem_t leave;
static pthread_t holder;

static void *hold(void *unused)
{
  int threads = omp_get_num_procs() < 2 ? 2 : omp_get_num_procs();

  (void)unused;
#pragma omp parallel num_threads(threads)
  {
    omp_get_thread_num(); /* its threads stay for as long as the one that called for them */
  }
  while (sem_wait(&leave) != 0) {
  }
  return NULL;
}

static bool begin(void)
{
  sigset_t all;
  sigset_t before;
  bool there;

  if (sem_init(&leave, 0, 0) != 0) {
    return false;
  }
  sigfillset(&all); /* signals are for the threads that compute */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  there = pthread_create(&holder, NULL, hold, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return there;
}

static void end(void)
{
  sem_post(&leave);
  pthread_join(holder, NULL);
  sem_destroy(&leave);
}

/* -- When ------------------------------------------------------------------------------------ */

bool rg_waits_decide(rg_waits *w, int64_t now, int64_t delayed)
{
  int64_t passed = now - w->looked;
  double share = passed > 0 ? (double)(delayed - w->delayed) / (double)passed : 0;
  bool fresh = w->looked == 0 || passed > LONG_NS;

  w->looked = now;
  w->delayed = delayed;
  if (!fresh) {
    w->share += (share - w->share) * (double)passed / ((double)passed + average_ns);
    w->asleep = w->share > (w->asleep ? calm : busy);
  }
  return w->asleep;
}

/* Nanoseconds that this thread was ready to run and did not, from the scheduler; -1: not known. */
static int64_t delayed_ns(int fd)
{
  char text[96];
  ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
  char *next;

  if (n <= 0) {
    return -1;
  }
  text[n] = 0;
  strtoll(text, &next, 10); /* time that it ran */
  return strtoll(next, NULL, 10);
}

static _Thread_local bool decides; /* the thread that loads the library, which runs Lua */
static _Atomic bool asleep;

__attribute__((constructor)) static void choose(void)
{
  decides = getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL;
}

/* Let waits be asleep, or busy again; false where the system gives no threads. */
bool rg_waits_set(bool want)
{
  if (want == atomic_load(&asleep)) {
    return true;
  }
  if (!want) {
    end();
  } else if (!begin()) {
    return false;
  }
  atomic_store_explicit(&asleep, want, memory_order_relaxed);
  return true;
}

bool rg_waits_asleep(void)
{
  return atomic_load_explicit(&asleep, memory_order_relaxed);
}

void rg_waits_look(void)
{
  static rg_waits w;
  static int fd = -1;
  int64_t delayed;
  int64_t now;

  if (!decides || (now = rg_clock_ns()) - w.looked < LOOK_NS) {
    return;
  }
  if (fd < 0) {
    fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  }
  delayed = fd < 0 ? -1 : delayed_ns(fd);
  if (delayed < 0) {
    decides = false;
    return;
  }
  if (!rg_waits_set(rg_waits_decide(&w, now, delayed))) {
    decides = false;
  }
}
