/* SPDX-License-Identifier: MIT */
/*
** Calls on a device: a library of the device's vendor (NCCL) moves and adds up what is there, in a
** queue of its own beside the device's other work.
**
** Ranks tell each other of such a call as of any other before it goes into that queue, so what
** differs is refused, and who does not come is named.  Behind that point nobody can say who is
** missing: the library is asked for its errors, and what takes longer than the timeout is given up,
** by the thread of the group; whoever waits for the device is told then.
*/
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/comms.h"
#include "dist/group.h"

_Static_assert((int)RG_COMM_BROADCAST == RG_GROUP_BROADCAST &&
                   (int)RG_COMM_ALL_GATHER == RG_GROUP_ALL_GATHER &&
                   (int)RG_COMM_REDUCE_SCATTER == RG_GROUP_REDUCE_SCATTER &&
                   (int)RG_COMM_ALL_REDUCE == RG_GROUP_ALL_REDUCE &&
                   (int)RG_COMM_SUM == RG_GROUP_SUM && (int)RG_COMM_MEAN == RG_GROUP_MEAN &&
                   (int)RG_COMM_MAX == RG_GROUP_MAX && (int)RG_COMM_MIN == RG_GROUP_MIN &&
                   (int)RG_COMM_PROD == RG_GROUP_PROD,
               "ORDER: ridge/group.h");

enum { SHORT_NAP_NS = 5000, LONG_NAP_NS = 1000000 };

struct rg_device_call {
  rg_device_call *next;
  int64_t serial;
  int64_t since; /* when the device had come to it, as far as it was seen; 0: it has not */
  rg_group_call call;
  void *behind; /* marks: of the stream it was started from, */
  void *begun;  /* and of the communicator's */
  void *done;
  bool passed;   /* the device has done it */
  bool followed; /* its waiting stream is behind it, or another call's that is later */
};

struct rg_device_calls {
  pthread_mutex_t lock;
  rg_device_call *first; /* in the device's queue, in their order */
  rg_device_call *spare; /* whose marks are used again */
  void *comm;            /* the group's thread's own */
  int32_t device;        /* RG_CPU: none yet */
  int32_t n_pending;     /* of first: that are not passed */
};

static const rg_comms *comms_of(const rg_device_calls *d)
{
  return rg_driver_of(d->device)->comms;
}

rg_device_calls *rg_device_calls_new(void)
{
  rg_device_calls *d = rg_host_zeroed(sizeof(*d));

  if (d != NULL) pthread_mutex_init(&d->lock, NULL);
  return d;
}

static void free_calls(rg_device_call *call)
{
  while (call != NULL) {
    rg_device_call *next = call->next;
    const rg_driver *driver = rg_driver_of(call->call.device);

    if (call->behind != NULL) driver->mark_free(call->call.device, call->behind);
    if (call->begun != NULL) driver->mark_free(call->call.device, call->begun);
    if (call->done != NULL) driver->mark_free(call->call.device, call->done);
    rg_host_free(call);
    call = next;
  }
}

void rg_device_calls_release(rg_device_calls *d)
{
  if (d == NULL) return;
  free_calls(d->first);
  free_calls(d->spare);
  pthread_mutex_destroy(&d->lock);
  rg_host_free(d);
}

/* -- On the threads that start calls and wait for them ----------------------------------------- */

rg_status rg_device_calls_reach(rg_device_calls *d, int32_t device)
{
  const rg_comms *comms = rg_driver_of(device)->comms;
  int32_t own;
  bool first;

  if (comms == NULL) {
    return rg_fail(RG_ENOSUP, "dist: nothing carries what is on %s to other processes",
                   rg_device_name(device));
  }
  RG_TRY(comms->open());
  pthread_mutex_lock(&d->lock);
  first = d->device == RG_CPU;
  if (first) d->device = device;
  own = d->device;
  pthread_mutex_unlock(&d->lock);
  if (own != device) {
    return rg_fail(RG_EDEVICE,
                   "dist: this rank's tensors are on %s since its first collective of "
                   "such, and this one is on %s: a rank has one GPU",
                   rg_device_name(own), rg_device_name(device));
  }
  return first ? rg_group_end_before() : RG_OK;
}

static rg_status make_marks(rg_device_call *call)
{
  const int32_t device = call->call.device;
  const rg_driver *driver = rg_driver_of(device);

  RG_TRY(driver->mark_new(device, &call->behind));
  RG_TRY(driver->mark_new(device, &call->begun));
  return driver->mark_new(device, &call->done);
}

rg_status rg_device_call_new(rg_device_calls *d, const rg_group_call *call, rg_device_call **out)
{
  rg_device_call *new;
  rg_status status;

  RG_TRY(rg_device_calls_reach(d, call->device));
  pthread_mutex_lock(&d->lock);
  new = d->spare;
  if (new != NULL) d->spare = new->next;
  pthread_mutex_unlock(&d->lock);
  if (new == NULL) {
    new = rg_host_zeroed(sizeof(*new));
    if (new == NULL) {
      return rg_fail(RG_ENOMEM, "dist: no memory for a call");
    }
    new->call.device = call->device;
    status = make_marks(new);
    if (status != RG_OK) {
      free_calls(new);
      return status;
    }
  }
  *new = (rg_device_call){
    .call = *call, .behind = new->behind, .begun = new->begun, .done = new->done
  };
  status = rg_driver_of(call->device)->mark_set(call->device, new->behind);
  if (status != RG_OK) {
    rg_device_call_drop(d, new);
    return status;
  }
  *out = new;
  return RG_OK;
}

void rg_device_call_drop(rg_device_calls *d, rg_device_call *call)
{
  pthread_mutex_lock(&d->lock);
  call->next = d->spare;
  d->spare = call;
  pthread_mutex_unlock(&d->lock);
}

/* Calls that are done and waited for are used again; the lock is held. */
static void sweep(rg_device_calls *d)
{
  while (d->first != NULL && d->first->passed && d->first->followed) {
    rg_device_call *call = d->first;

    d->first = call->next;
    call->next = d->spare;
    d->spare = call;
  }
}

rg_status rg_device_calls_follow(rg_device_calls *d, int64_t serial)
{
  rg_device_call *last = NULL;
  rg_status status = RG_OK;

  pthread_mutex_lock(&d->lock);
  for (rg_device_call *call = d->first; call != NULL && call->serial <= serial; call = call->next) {
    if (!call->followed) last = call;
    call->followed = true;
  }
  if (last != NULL) { /* they are in one queue: the last one is behind all */
    status = rg_driver_of(d->device)->mark_follow(d->device, last->done);
  }
  sweep(d);
  pthread_mutex_unlock(&d->lock);
  return status;
}

bool rg_device_calls_pend(rg_device_calls *d)
{
  bool pend;

  pthread_mutex_lock(&d->lock);
  pend = d->n_pending > 0;
  pthread_mutex_unlock(&d->lock);
  return pend;
}

/* -- Joining ----------------------------------------------------------------------------------- */

/* What a rank tells the others of its device. */
typedef struct introduction {
  char id[RG_COMM_ID]; /* of rank 0 */
  char gpu[48];
  char host[64]; /* of a simulated device, which are alike on all machines */
  char why[255]; /* it cannot join; empty: it can */
  char end;
} introduction;

static void introduce(const rg_group_work *w, introduction *own)
{
  const rg_device_calls *d = w->devices;
  rg_device_facts facts;
  rg_status status = rg_driver_of(d->device)->facts(d->device, &facts);

  if (status == RG_OK) {
    snprintf(own->gpu, sizeof(own->gpu), "%.47s", facts.uuid);
    if (facts.simulated != 0) (void)gethostname(own->host, sizeof(own->host) - 1);
    status = comms_of(d)->open();
  }
  if (status == RG_OK && w->transport.rank == 0) status = comms_of(d)->make_id(own->id);
  if (status != RG_OK) snprintf(own->why, sizeof(own->why), "%.254s", rg_error_message());
}

/* Can all of them join, each with a device of its own? */
static rg_status check_all(const introduction *all, int32_t n)
{
  for (int32_t r = 0; r < n; r++) {
    if (all[r].why[0] != '\0') {
      return rg_fail(RG_ENET, "dist: rank %d cannot exchange what is on its GPU: %s", r,
                     all[r].why);
    }
  }
  for (int32_t r = 1; r < n; r++) {
    for (int32_t q = 0; q < r; q++) {
      if (strcmp(all[q].gpu, all[r].gpu) == 0 && strcmp(all[q].host, all[r].host) == 0) {
        return rg_fail(RG_EDEVICE,
                       "dist: ranks %d and %d have their tensors on one GPU (%s), and NCCL wants "
                       "one for each rank: that with the number world.local_rank",
                       q, r, all[r].gpu);
      }
    }
  }
  return RG_OK;
}

/* "collective 3 (all_reduce, sum of 10 f32)" */
static const char *name_call(const rg_group_call *call, int64_t serial, char *text, size_t size)
{
  char what[96];

  rg_group_text(call->kind, call->op, call->dtype, call->count, what, sizeof(what));
  snprintf(text, size, "collective %lld (%s)", (long long)serial, what);
  return text;
}

/* Wait until the library has taken what it was asked for. */
static rg_status settle(rg_group_work *w, const char *what)
{
  const rg_device_calls *d = w->devices;
  const int64_t since = rg_clock_ns();
  bool done = false;

  for (;;) {
    int64_t quiet;

    RG_TRY(comms_of(d)->settled(d->comm, &done));
    if (done) {
      return RG_OK;
    }
    if (atomic_load(&w->stop)) {
      return rg_fail(RG_EINTR, "dist: interrupted");
    }
    quiet = rg_clock_ns() - since;
    if (quiet > atomic_load(&w->timeout_ns)) {
      return rg_fail(RG_ELATE,
                     "dist: all ranks have come to %s, and %s has not begun it for %g s: one has "
                     "ended since, or its network is cut",
                     what, comms_of(d)->name, (double)atomic_load(&w->timeout_ns) / 1e9);
    }
    quiet = rg_max_i64(SHORT_NAP_NS, rg_min_i64(quiet / 8, LONG_NAP_NS));
    nanosleep(&(struct timespec){ .tv_nsec = (long)quiet }, NULL);
  }
}

/* The first call of all ranks: they become a communicator. */
static rg_status join(rg_group_work *w, const char *what)
{
  rg_device_calls *d = w->devices;
  const int32_t n = w->transport.size;
  introduction *all = rg_host_zeroed((size_t)(n + 1) * sizeof(*all));
  introduction *own;
  rg_status status;

  if (all == NULL) {
    return rg_fail(RG_ENOMEM, "dist: no memory for %d ranks", n);
  }
  own = all + n;
  introduce(w, own);
  status = rg_group_exchange(w, &(rg_group_call){ .kind = RG_GROUP_ALL_GATHER,
                                                  .dtype = RG_U8,
                                                  .count = sizeof(*own),
                                                  .unit = 1,
                                                  .in = own,
                                                  .out = all });
  if (status == RG_OK) status = check_all(all, n);
  if (status == RG_OK) {
    status = comms_of(d)->join(d->device, all[0].id, w->transport.rank, n, &d->comm);
  }
  rg_host_free(all);
  return status == RG_OK ? settle(w, what) : status;
}

/* -- On the group's thread --------------------------------------------------------------------- */

/* How a weighted mean is asked for: as a mean where all count alike, else by shares. */
static void weigh(const rg_group_work *w, const rg_group_call *call, rg_comm_call *out)
{
  double all = 0;
  bool alike = true;

  out->op = call->op;
  out->share = 1;
  if (call->op != RG_GROUP_WEIGHTED) {
    return;
  }
  for (int32_t r = 0; r < w->transport.size; r++) {
    all += w->told[r].weight;
    alike = alike && w->told[r].weight == w->told[0].weight;
  }
  alike = alike && all > 0;
  out->op = alike ? RG_COMM_MEAN : RG_COMM_SUM;
  out->share = alike ? 1 : call->weight > 0 ? call->weight / all : 0;
}

static rg_status hand_over(rg_group_work *w, rg_device_call *x)
{
  rg_device_calls *d = w->devices;
  char what[128];
  rg_comm_call call = { .kind = x->call.kind,
                        .dtype = x->call.dtype,
                        .root = x->call.root,
                        .count = x->call.count,
                        .unit = x->call.unit,
                        .in = x->call.in,
                        .out = x->call.out,
                        .behind = x->behind,
                        .begun = x->begun };

  name_call(&x->call, w->serial, what, sizeof(what));
  if (d->comm == NULL) RG_TRY(join(w, what));
  weigh(w, &x->call, &call);
  RG_TRY(comms_of(d)->start(d->comm, &call));
  RG_TRY(settle(w, what));
  return comms_of(d)->set(d->comm, x->done);
}

rg_status rg_device_call_run(rg_group_work *w, rg_device_call *x)
{
  rg_device_calls *d = w->devices;
  rg_status status = hand_over(w, x);

  x->serial = w->serial;
  pthread_mutex_lock(&d->lock);
  rg_device_call **last = &d->first;

  while (*last != NULL) {
    last = &(*last)->next;
  }
  x->next = NULL;
  *last = x; /* also where it failed: something of it may be in the queue */
  d->n_pending++;
  pthread_mutex_unlock(&d->lock);
  return status == RG_OK ? rg_device_calls_watch(w) : status;
}

static rg_status is_late(const rg_group_work *w, const rg_device_call *x)
{
  char what[128];

  return rg_fail(RG_ELATE,
                 "dist: all ranks have come to %s, and it has not ended within %g s: one has ended "
                 "since, or its network is cut; the timeout is that of ridge.dist.init",
                 name_call(&x->call, x->serial, what, sizeof(what)),
                 (double)atomic_load(&w->timeout_ns) / 1e9);
}

/* How far is a call?  The lock is held. */
static rg_status look_at(rg_group_work *w, rg_device_call *x)
{
  rg_device_calls *d = w->devices;
  bool done = true;

  if (x->since == 0) {
    RG_TRY(comms_of(d)->passed(d->comm, x->begun, &done));
    if (!done) {
      return RG_OK;
    }
    x->since = rg_clock_ns();
  }
  RG_TRY(comms_of(d)->passed(d->comm, x->done, &x->passed));
  d->n_pending -= x->passed;
  return !x->passed && rg_clock_ns() - x->since > atomic_load(&w->timeout_ns) ? is_late(w, x)
                                                                              : RG_OK;
}

rg_status rg_device_calls_watch(rg_group_work *w)
{
  rg_device_calls *d = w->devices;
  rg_status status = RG_OK;
  bool done;

  RG_TRY(comms_of(d)->settled(d->comm, &done)); /* what was asked for is: only errors are told */
  pthread_mutex_lock(&d->lock);
  for (rg_device_call *x = d->first; x != NULL && status == RG_OK; x = x->next) {
    if (x->passed) continue;
    status = look_at(w, x);
    if (!x->passed) break; /* those behind it are not, either */
  }
  sweep(d);
  pthread_mutex_unlock(&d->lock);
  return status;
}

void rg_device_calls_abort(rg_group_work *w, const char *why)
{
  rg_device_calls *d = w->devices;

  if (d->comm != NULL) {
    comms_of(d)->give_up(d->comm, rg_device_calls_pend(d) ? why : NULL);
  }
}

void rg_device_calls_end(rg_group_work *w)
{
  rg_device_calls *d = w->devices;
  rg_status status = RG_OK;

  if (d->comm == NULL) {
    return;
  }
  while (status == RG_OK && rg_device_calls_pend(d)) {
    status = rg_device_calls_watch(w);
    nanosleep(&(struct timespec){ .tv_nsec = SHORT_NAP_NS }, NULL);
  }
  if (status == RG_OK) status = comms_of(d)->leave(d->comm);
  if (status == RG_OK) status = settle(w, "the end");
  if (status != RG_OK) comms_of(d)->give_up(d->comm, NULL); /* the process ends anyway */
  comms_of(d)->release(d->comm);
  d->comm = NULL;
}
