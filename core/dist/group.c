/* SPDX-License-Identifier: MIT */
/*
** A group: the thread that owns the library for messages, and the calls that wait for it.
**
** The library is opened, used and ended on that thread alone (MPI_THREAD_SERIALIZED is more than
** that needs), so messages move while the process computes: Open MPI moves nothing between calls of
** its functions.
*/
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "dist/group.h"

/* A wait looks at Ctrl-C so often, and the thread at what a device has not done yet. */
static const int64_t look_ns = 20000000;
static const int64_t watch_ns = 2000000;

enum { FIRST_TIMEOUT_S = 60 };

typedef struct waiting_call {
  struct waiting_call *next;
  rg_device_call *there; /* NULL: it is one of the CPU's */
  rg_group_call call;
} waiting_call;

struct rg_group {
  rg_group_work work;
  rg_transport_open *open;
  void *argument;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t asked; /* something is to be done */
  pthread_cond_t done;  /* something is */
  waiting_call *first;
  waiting_call **last;
  int64_t started; /* calls */
  int64_t ended;
  bool ready;
  bool ending;
  bool left; /* nobody waits for the library to open any more: the thread has the group alone */
  rg_status failed; /* what the first failure was, RG_OK so far */
  char why[512];
};

/* -- The thread -------------------------------------------------------------------------------- */

static void fail_locked(rg_group *g, rg_status status)
{
  if (g->failed == RG_OK) {
    g->failed = status;
    snprintf(g->why, sizeof(g->why), "%s", rg_error_message());
    rg_device_calls_abort(&g->work, g->why);
  }
}

static rg_status open_transport(rg_group *g)
{
  rg_group_work *w = &g->work;

  w->transport = (rg_transport){ .name = "none", .size = 1, .local_size = 1 };
  if (g->open != NULL) {
    RG_TRY(g->open(g->argument, &w->transport));
  }
  w->told = rg_host_zeroed((size_t)w->transport.size * sizeof(*w->told));
  w->waiting = rg_host_zeroed((size_t)w->transport.size * 2 * sizeof(*w->waiting));
  if (w->told == NULL || w->waiting == NULL) {
    return rg_fail(RG_ENOMEM, "dist: no memory for %d ranks", w->transport.size);
  }
  return RG_OK;
}

/* Sleep until something is signalled, or for a while; the lock is held. */
static void nap(rg_group *g, pthread_cond_t *signal, int64_t ns)
{
  struct timespec then;

  clock_gettime(CLOCK_MONOTONIC, &then);
  then.tv_nsec += ns;
  if (then.tv_nsec >= 1000000000) {
    then.tv_nsec -= 1000000000;
    then.tv_sec++;
  }
  pthread_cond_timedwait(signal, &g->lock, &then);
}

/* Sleep until a call comes; meanwhile look at what devices do.  The lock is held. */
static void await_call(rg_group *g)
{
  rg_status status;

  if (g->failed != RG_OK || !rg_device_calls_pend(g->work.devices)) {
    pthread_cond_wait(&g->asked, &g->lock);
    return;
  }
  nap(g, &g->asked, watch_ns);
  pthread_mutex_unlock(&g->lock);
  status = rg_device_calls_watch(&g->work);
  pthread_mutex_lock(&g->lock);
  if (status != RG_OK) fail_locked(g, status);
}

static rg_status run_call(rg_group *g, const waiting_call *next)
{
  const rg_status status = rg_group_run(&g->work, &next->call);

  if (next->there == NULL) return status;
  if (status == RG_OK) return rg_device_call_run(&g->work, next->there);
  rg_device_call_drop(g->work.devices, next->there);
  return status;
}

/* Take calls until none will come any more; the lock is held. */
static void serve(rg_group *g)
{
  for (;;) {
    waiting_call *next = g->first;
    rg_status status;

    if (next == NULL && g->ending) {
      return;
    }
    if (next == NULL) {
      await_call(g);
      continue;
    }
    g->first = next->next;
    if (g->first == NULL) g->last = &g->first;
    status = g->failed;
    g->work.serial++;
    pthread_mutex_unlock(&g->lock);
    if (status == RG_OK) {
      status = run_call(g, next);
    } else if (next->there != NULL) {
      rg_device_call_drop(g->work.devices, next->there);
    }
    rg_host_free(next);
    pthread_mutex_lock(&g->lock);
    if (status != RG_OK) fail_locked(g, status);
    g->ended++;
    pthread_cond_broadcast(&g->done);
  }
}

/*
** Where ranks compute on all processors, a message that has come waits until the thread that
** computes has used up its slice, some milliseconds: a backward pass was over before the next part
** of a transfer began.  With a short slice of its own this thread goes first (Linux 6.12 and later,
** without any privilege; older ones ignore it), and it takes a processor for microseconds.
*/
static void take_short_slices(void)
{
#ifdef SYS_sched_setattr
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = 100000 };

  errno = 0;
  attr.nice = getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && sched_getscheduler(0) == SCHED_OTHER) { /* another policy is the user's wish */
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
  }
#endif
  (void)prctl(PR_SET_TIMERSLACK, 1000); /* ns, of 50000: naps are as short as they are said */
}

static void destroy(rg_group *g)
{
  rg_host_free(g->work.told);
  rg_host_free(g->work.waiting);
  rg_host_free(g->work.scratch);
  rg_device_calls_release(g->work.devices);
  pthread_cond_destroy(&g->asked);
  pthread_cond_destroy(&g->done);
  pthread_mutex_destroy(&g->lock);
  rg_host_free(g);
}

static void *run(void *argument)
{
  rg_group *g = argument;
  rg_status status;

  take_short_slices();
  status = open_transport(g);

  pthread_mutex_lock(&g->lock);
  if (status != RG_OK) fail_locked(g, status);
  g->ready = true;
  if (g->left) { /* what has opened too late stays: ending it would wait for the others, too */
    pthread_mutex_unlock(&g->lock);
    destroy(g);
    return NULL;
  }
  pthread_cond_broadcast(&g->done);
  serve(g);
  status = g->failed;
  pthread_mutex_unlock(&g->lock);
  /* behind a failure the others may not be there, and whoever ends us tells them */
  if (status == RG_OK) rg_device_calls_end(&g->work);
  if (status == RG_OK && g->work.transport.end != NULL) {
    g->work.transport.end(g->work.transport.self);
  }
  return NULL;
}

/* -- Its life ---------------------------------------------------------------------------------- */

/* Signals are the other threads'. */
static int start_thread(rg_group *g)
{
  sigset_t all;
  sigset_t before;
  int code;

  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  code = pthread_create(&g->thread, NULL, run, g);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

/* Sleep until something is done, or for a while; the lock is held. */
static void look(rg_group *g)
{
  nap(g, &g->done, look_ns);
}

/* Wait until the library is open; what opens it cannot be told to stop.  The lock is held. */
static rg_status wait_open(rg_group *g, int64_t patience_ns)
{
  const int64_t began = rg_clock_ns();

  while (!g->ready) {
    look(g);
    if (g->ready) break;
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "dist: interrupted");
    }
    if (patience_ns > 0 && rg_clock_ns() - began > patience_ns) {
      return rg_fail(RG_ELATE,
                     "dist: the ranks that were started have not all come within %g s: one has "
                     "ended without the others, or does something else",
                     (double)patience_ns / 1e9);
    }
  }
  if (g->failed != RG_OK) return rg_fail(g->failed, "%s", g->why);
  return RG_OK;
}

rg_status rg_group_new(rg_transport_open *open, void *argument, int64_t patience_ns, rg_group **out)
{
  rg_group *g = rg_host_zeroed(sizeof(*g));
  pthread_condattr_t monotonic;
  rg_status status;

  if (g == NULL) {
    return rg_fail(RG_ENOMEM, "dist: no memory for a group");
  }
  g->work.devices = rg_device_calls_new();
  if (g->work.devices == NULL) {
    rg_host_free(g);
    return rg_fail(RG_ENOMEM, "dist: no memory for a group");
  }
  g->open = open;
  g->argument = argument;
  g->last = &g->first;
  atomic_store(&g->work.timeout_ns, FIRST_TIMEOUT_S * 1000000000LL);
  pthread_mutex_init(&g->lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&g->asked, &monotonic);
  pthread_cond_init(&g->done, &monotonic);
  pthread_condattr_destroy(&monotonic);
  if (start_thread(g) != 0) {
    destroy(g);
    return rg_fail(RG_ESYS, "dist: the system starts no thread");
  }
  pthread_mutex_lock(&g->lock);
  status = wait_open(g, patience_ns);
  if (!g->ready) {
    g->left = true;
    pthread_detach(g->thread);
    pthread_mutex_unlock(&g->lock);
    return status;
  }
  pthread_mutex_unlock(&g->lock);
  if (status != RG_OK) {
    rg_group_release(g);
    return status;
  }
  *out = g;
  return RG_OK;
}

void rg_group_release(rg_group *g)
{
  if (g == NULL) return;
  pthread_mutex_lock(&g->lock);
  g->ending = true;
  pthread_cond_signal(&g->asked);
  pthread_mutex_unlock(&g->lock);
  pthread_join(g->thread, NULL);
  destroy(g);
}

/* -- What it is -------------------------------------------------------------------------------- */

int32_t rg_group_rank(const rg_group *g)
{
  return g->work.transport.rank;
}

int32_t rg_group_size(const rg_group *g)
{
  return g->work.transport.size;
}

int32_t rg_group_local_rank(const rg_group *g)
{
  return g->work.transport.local_rank;
}

int32_t rg_group_local_size(const rg_group *g)
{
  return g->work.transport.local_size;
}

const char *rg_group_library(const rg_group *g)
{
  return g->work.transport.name;
}

rg_status rg_group_set_timeout(rg_group *g, double seconds)
{
  if (!(seconds > 0 && seconds <= 1e9)) {
    return rg_fail(RG_EARG, "dist: a timeout is above 0 s, got %g", seconds);
  }
  atomic_store(&g->work.timeout_ns, (int64_t)(seconds * 1e9));
  return RG_OK;
}

void rg_group_set_step(rg_group *g, int64_t step)
{
  atomic_store(&g->work.step, step);
}

void rg_group_part(int64_t n, int32_t rank, int32_t size, int64_t *first, int64_t *part)
{
  int64_t each = n / size;
  int64_t more = n % size; /* of the first ranks one each */

  *first = rank * each + rg_min_i64(rank, more);
  *part = each + (rank < more);
}

/* -- Calls ------------------------------------------------------------------------------------- */

static rg_status check(const rg_group *g, const rg_group_call *call)
{
  const bool reduces = call->kind == RG_GROUP_ALL_REDUCE || call->kind == RG_GROUP_REDUCE_SCATTER;
  const bool picks = call->op == RG_GROUP_MAX || call->op == RG_GROUP_MIN;
  const bool shares = call->op == RG_GROUP_MEAN || call->op == RG_GROUP_WEIGHTED;
  const int32_t kind = rg_dtype_kind(call->dtype);
  char text[96];

  if (call->kind < 0 || call->kind >= RG_GROUP_KINDS || call->op < 0 || call->op >= RG_GROUP_OPS) {
    return rg_fail(RG_EARG, "dist: there is no call of kind %d and operation %d", call->kind,
                   call->op);
  }
  rg_group_text(call->kind, call->op, call->dtype, call->count, text, sizeof(text));
  if (rg_dtype_bytes(call->dtype) == 0 || call->count < 0 || call->unit < 1 ||
      call->count % call->unit != 0 || !(call->weight >= 0) ||
      (call->count > 0 && (call->in == NULL || call->out == NULL))) {
    return rg_fail(RG_EARG, "dist: %s: memory, a count, a unit that divides it and a weight from 0",
                   text);
  }
  if (call->root < 0 || call->root >= g->work.transport.size) {
    return rg_fail(RG_EARG, "dist: there is no rank %d; ranks are 0 to %d", call->root,
                   g->work.transport.size - 1);
  }
  if (reduces && ((kind & RG_KIND_STORED) != 0 || ((kind & RG_KIND_LOGIC) != 0 && !picks) ||
                  ((kind & RG_KIND_WHOLE) != 0 && shares))) {
    return rg_fail(RG_EDTYPE, "dist: there is no %s", text);
  }
  return RG_OK;
}

rg_status rg_group_reach(rg_group *g, int32_t device)
{
  RG_TRY(rg_device_open(device));
  return g->work.transport.size == 1 || device == RG_CPU
             ? RG_OK
             : rg_device_calls_reach(g->work.devices, device);
}

static rg_status refuse_failed(rg_group *g)
{
  rg_status status;

  pthread_mutex_lock(&g->lock);
  status = g->failed;
  if (status != RG_OK) (void)rg_fail(status, "%s", g->why);
  pthread_mutex_unlock(&g->lock);
  return status;
}

/* What a group of one rank does on a device: nobody else knows of it. */
static rg_status alone(const rg_group_call *call)
{
  const int64_t bytes = call->count * rg_dtype_bytes(call->dtype);
  rg_status status;
  void *zeros;

  if (call->op == RG_GROUP_WEIGHTED && call->kind >= RG_GROUP_REDUCE_SCATTER &&
      !(call->weight > 0)) {
    zeros = rg_host_zeroed((size_t)bytes);
    if (zeros == NULL) {
      return rg_fail(RG_ENOMEM, "dist: no memory for %lld zeros", (long long)call->count);
    }
    status = rg_device_copy(call->device, call->out, RG_CPU, zeros, bytes, false);
    rg_host_free(zeros);
    return status;
  }
  return call->in == call->out
             ? RG_OK
             : rg_device_copy(call->device, call->out, call->device, call->in, bytes, false);
}

rg_status rg_group_start(rg_group *g, const rg_group_call *call, int64_t *ticket)
{
  const bool there = call->device != RG_CPU && call->kind != RG_GROUP_BARRIER;
  waiting_call *new;

  RG_TRY(check(g, call));
  RG_TRY(refuse_failed(g));
  if (there && g->work.transport.size == 1) {
    *ticket = 0;
    return call->count > 0 ? alone(call) : RG_OK;
  }
  new = rg_host_alloc(sizeof(*new));
  if (new == NULL) {
    return rg_fail(RG_ENOMEM, "dist: no memory for a call");
  }
  *new = (waiting_call){ .call = *call };
  if (there && call->count > 0) {
    rg_status status = rg_device_call_new(g->work.devices, call, &new->there);

    if (status != RG_OK) {
      rg_host_free(new);
      return status;
    }
  }
  pthread_mutex_lock(&g->lock);
  *g->last = new;
  g->last = &new->next;
  *ticket = ++g->started;
  pthread_mutex_unlock(&g->lock);
  pthread_cond_signal(&g->asked); /* with the lock it would wake up only to wait for that */
  return RG_OK;
}

int32_t rg_group_ended(rg_group *g, int64_t ticket)
{
  bool ended;

  pthread_mutex_lock(&g->lock);
  ended = g->ended >= ticket;
  pthread_mutex_unlock(&g->lock);
  return ended;
}

rg_status rg_group_wait(rg_group *g, int64_t ticket)
{
  rg_status status;

  atomic_fetch_add(&g->work.awaited, 1);
  pthread_mutex_lock(&g->lock);
  while (g->ended < ticket && g->ended < g->started) {
    look(g);
    if (rg_interrupt_pending()) atomic_store(&g->work.stop, 1);
  }
  atomic_fetch_sub(&g->work.awaited, 1);
  status = g->failed;
  if (status != RG_OK) (void)rg_fail(status, "%s", g->why);
  pthread_mutex_unlock(&g->lock);
  return status != RG_OK ? status : rg_device_calls_follow(g->work.devices, ticket);
}

int64_t rg_group_digest(const void *bytes, int64_t n)
{
  const char *at = bytes;
  uint64_t hash = 0xcbf29ce484222325u;

  for (; n > 0; n -= 8, at += 8) {
    uint64_t word = 0;

    memcpy(&word, at, (size_t)rg_min_i64(n, 8));
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29; /* the upper bits of words reach the lower ones */
  }
  return (int64_t)hash;
}
