/* SPDX-License-Identifier: MIT */
/*
** Calls of libraries that never look at a request to stop, on a thread that the caller may leave.
**
** A process that ends meanwhile must not take the library down under the thread: its code and its
** memory stay until the process is gone.
*/
#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

typedef struct aside {
  void (*run)(void *work);
  void (*drop)(void *work);
  void *work;
  int32_t threads; /* 0: it computes on its own, where the caller does */
  cpu_set_t where; /* all processors of the caller's compute threads */
  bool done;
  bool left; /* the caller is gone */
} aside;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int32_t n_left;
static int32_t n_stray; /* threads of others */

/* Half a look of a person, so that nobody sees the wait. */
static void wait_some(void)
{
  struct timespec until;

  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 5000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  pthread_cond_timedwait(&changed, &lock, &until);
}

/* Registered when a call is left for the first time, so it runs before libraries are unloaded. */
static void at_end(int status, void *unused)
{
  (void)unused;
  pthread_mutex_lock(&lock);
  bool some = n_left + n_stray > 0;
  pthread_mutex_unlock(&lock);
  if (some) {
    fflush(NULL);
    _exit(status);
  }
}

/* The caller holds the lock. */
static void end_under_them(void)
{
  static bool registered;

  if (!registered) {
    registered = on_exit(at_end, NULL) == 0;
  }
}

void rg_aside_stays(void (*function)(void))
{
  void *code;
  Dl_info facts;

  memcpy(&code, &function, sizeof(code)); /* dladdr has no pointers to functions */
  if (dladdr(code, &facts) != 0 && facts.dli_fname != NULL) {
    (void)dlopen(facts.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

void rg_aside_stray(int32_t more)
{
  pthread_mutex_lock(&lock);
  n_stray += more;
  if (more > 0) {
    end_under_them();
  }
  pthread_mutex_unlock(&lock);
}

static void *body(void *argument)
{
  aside *a = argument;

  if (a->threads > 0) {
    sched_setaffinity(0, sizeof(a->where), &a->where);
    omp_set_num_threads(a->threads);
  }
  a->run(a->work);
  pthread_mutex_lock(&lock);
  a->done = true;
  bool left = a->left;
  pthread_mutex_unlock(&lock);
  if (left) {
    a->drop(a->work);
    rg_host_free(a);
    pthread_mutex_lock(&lock);
    n_left--;
    pthread_mutex_unlock(&lock);
  }
  pthread_cond_broadcast(&changed);
  return NULL;
}

/* Compute threads may be bound to a processor each; the library's own are to have all of them. */
static void see_where(aside *a)
{
  CPU_ZERO(&a->where);
#pragma omp parallel num_threads(a->threads)
  {
    cpu_set_t mine;

    if (sched_getaffinity(0, sizeof(mine), &mine) == 0) {
#pragma omp critical(rg_aside)
      CPU_OR(&a->where, &a->where, &mine);
    }
  }
}

/* On a thread that gets no signal. */
static bool start(aside *a)
{
  pthread_attr_t detached;
  pthread_t thread;
  sigset_t all;
  sigset_t before;
  bool started;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  started = pthread_create(&thread, &detached, body, a) == 0;
  pthread_attr_destroy(&detached);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

bool rg_aside_left(void)
{
  pthread_mutex_lock(&lock);
  bool some = n_left > 0;
  pthread_mutex_unlock(&lock);
  return some;
}

rg_status rg_aside_settle(void)
{
  rg_status status = RG_OK;

  pthread_mutex_lock(&lock);
  while (n_left > 0 && status == RG_OK) {
    wait_some();
    status = n_left > 0 && rg_interrupt_pending() ? RG_EINTR : RG_OK;
  }
  pthread_mutex_unlock(&lock);
  return status == RG_OK ? RG_OK : rg_fail(RG_EINTR, "interrupted");
}

static rg_status begin(void (*run)(void *work), void (*drop)(void *work), void *work,
                       int32_t threads)
{
  static const int64_t patience_ns = 100000000; /* for what does look, now and then */
  aside *a = rg_host_zeroed(sizeof(*a));
  int64_t pressed_ns = 0;

  if (a == NULL) {
    drop(work);
    return rg_fail(RG_ENOMEM, "out of memory for a thread");
  }
  *a = (aside){ .run = run, .drop = drop, .work = work, .threads = threads };
  if (threads > 0) {
    see_where(a);
  }
  if (!start(a)) { /* no thread to be had: here, then */
    run(work);
    rg_host_free(a);
    return RG_OK;
  }
  pthread_mutex_lock(&lock);
  while (!a->done && !a->left) {
    wait_some();
    if (a->done || !rg_interrupt_pending()) {
      continue;
    }
    pressed_ns = pressed_ns > 0 ? pressed_ns : rg_clock_ns();
    if (rg_clock_ns() - pressed_ns >= patience_ns) {
      a->left = true;
      n_left++;
    }
  }
  bool left = a->left;
  if (left) {
    end_under_them();
  }
  pthread_mutex_unlock(&lock);
  if (left) {
    rg_aside_stays((void (*)(void))run);
    return rg_fail(RG_EINTR, "interrupted");
  }
  rg_host_free(a);
  return RG_OK;
}

rg_status rg_aside(void (*run)(void *work), void (*drop)(void *work), void *work)
{
  if (rg_aside_settle() != RG_OK) {
    drop(work);
    return RG_EINTR;
  }
  return begin(run, drop, work, rg_threads());
}

rg_status rg_aside_at_once(void (*run)(void *work), void (*drop)(void *work), void *work)
{
  return begin(run, drop, work, 0);
}
