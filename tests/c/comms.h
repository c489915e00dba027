/* SPDX-License-Identifier: MIT */
/*
** Ranks of one process, each with a device of its own, whose driver and library for collectives are
** written here: they do what they are asked for in memory of the host, count what they were given,
** and fail where they are told to.
*/
#ifndef RIDGE_TESTS_COMMS_H
#define RIDGE_TESTS_COMMS_H

#include "base/comms.h"
#include "driver.h"
#include "groups.h"

enum { RANKS = 3, CALLS = 1024, BARE = 7, SPARE = 8 }; /* rank r's device is r + 1 */

/* -- What fails -------------------------------------------------------------------------------- */

enum {
  NOTHING,
  OPEN,
  FACTS,
  MAKE_ID,
  JOIN,
  START,
  SETTLED,
  SLOW,  /* settled is not done for a while */
  NEVER, /* settled is not done */
  SET,
  PASSED,
  BEGINS_LATE, /* what is in front of a call on its device takes long */
  HANGS,       /* what was started does not end */
  LEAVE,
  MARK_NEW,
  MARK_SET,
  FOLLOW,
  ONE_GPU,
  WAYS
};
static _Atomic int32_t fails[WAYS]; /* the device it is; 0: none */

static bool does(int32_t way, int32_t device)
{
  return atomic_load(&fails[way]) == device;
}

static void let(int32_t way, int32_t device)
{
  atomic_store(&fails[way], device);
}

static void let_none(void)
{
  for (int32_t i = 0; i < WAYS; i++) {
    let(i, 0);
  }
}

/* -- Marks ------------------------------------------------------------------------------------- */

typedef struct mark {
  int64_t at; /* passed when so many calls are done; -1: it was never set */
} mark;

static _Atomic int32_t marks;       /* that there are */
static _Atomic int32_t marks_new;   /* that were ever made */
static _Atomic int32_t follows;     /* how often a stream was ordered behind one */
static _Atomic int64_t followed_at; /* by the last of these */
static _Atomic bool simulated;

static rg_status mark_new(int32_t device, void **out)
{
  mark *m;

  /* the second of a call's three: the first has to be freed again */
  if (does(MARK_NEW, device) && atomic_load(&marks_new) % 3 == 1) {
    atomic_fetch_add(&marks_new, 2);
    return rg_fail(RG_EDEVICE, "no mark");
  }
  m = malloc(sizeof(*m));
  if (m == NULL) return rg_fail(RG_ENOMEM, "no memory");
  m->at = -1;
  *out = m;
  atomic_fetch_add(&marks, 1);
  atomic_fetch_add(&marks_new, 1);
  return RG_OK;
}

static void mark_free(int32_t device, void *m)
{
  (void)device;
  free(m);
  atomic_fetch_sub(&marks, 1);
}

static rg_status mark_set(int32_t device, void *m)
{
  if (does(MARK_SET, device)) return rg_fail(RG_EDEVICE, "no place for a mark");
  ((mark *)m)->at = 0;
  return RG_OK;
}

static rg_status mark_follow(int32_t device, void *m)
{
  if (does(FOLLOW, device)) return rg_fail(RG_EDEVICE, "nothing follows");
  atomic_fetch_add(&follows, 1);
  atomic_store(&followed_at, ((mark *)m)->at);
  return RG_OK;
}

static rg_status facts(int32_t device, rg_device_facts *out)
{
  if (does(FACTS, device)) return rg_fail(RG_EDEVICE, "no facts");
  memset(out, 0, sizeof(*out));
  snprintf(out->uuid, sizeof(out->uuid), "GPU-%d", does(ONE_GPU, device) ? 1 : device);
  out->simulated = atomic_load(&simulated);
  return RG_OK;
}

/* -- The library ------------------------------------------------------------------------------- */

typedef struct comm {
  int32_t device;
  int32_t rank;
  int64_t started;
  _Atomic int32_t asked; /* of settled, since something was started */
  bool given_up;
  bool left;
} comm;

static struct {
  pthread_mutex_t lock;
  rg_comm_call calls[CALLS][RANKS];
  int32_t came[CALLS];
  int64_t n_done;
  comm *all[64]; /* what was joined, also where nothing releases it any more */
  int32_t n_all;
  int32_t size;
  int32_t n_ids;
  int32_t n_left;
  int32_t n_given_up;
  int32_t n_released;
  char id[RG_COMM_ID];
  char why[512]; /* of the last that was given up; "-": nobody is to be told */
} lib = { .lock = PTHREAD_MUTEX_INITIALIZER };

static rg_status lib_open(void)
{
  return does(OPEN, -1) ? rg_fail(RG_ENOSUP, "the library is not there") : RG_OK;
}

static rg_status lib_make_id(char *id)
{
  if (does(MAKE_ID, -1)) return rg_fail(RG_ENET, "no id");
  pthread_mutex_lock(&lib.lock);
  snprintf(id, RG_COMM_ID, "id %d", ++lib.n_ids);
  memcpy(lib.id, id, RG_COMM_ID);
  pthread_mutex_unlock(&lib.lock);
  return RG_OK;
}

static rg_status lib_join(int32_t device, const char *id, int32_t rank, int32_t size, void **out)
{
  comm *c;

  if (does(JOIN, device)) return rg_fail(RG_ENET, "it cannot join");
  c = calloc(1, sizeof(*c));
  if (c == NULL) return rg_fail(RG_ENOMEM, "no memory");
  c->device = device;
  c->rank = rank;
  pthread_mutex_lock(&lib.lock);
  if (memcmp(id, lib.id, RG_COMM_ID) != 0) tap_bail("another id");
  lib.all[lib.n_all++] = c;
  lib.size = size;
  pthread_mutex_unlock(&lib.lock);
  *out = c;
  return RG_OK;
}

/* Element i of the result of a call, by what ranks started it with. */
static float reduced(const rg_comm_call *calls, int64_t i)
{
  const int32_t op = calls[0].op;
  double x = op == RG_COMM_MAX    ? -INFINITY
             : op == RG_COMM_MIN  ? INFINITY
             : op == RG_COMM_PROD ? 1
                                  : 0;

  for (int32_t r = 0; r < lib.size; r++) {
    double y = (double)((const float *)calls[r].in)[i];

    if (op == RG_COMM_MAX) {
      x = y > x ? y : x;
    } else if (op == RG_COMM_MIN) {
      x = y < x ? y : x;
    } else if (op == RG_COMM_PROD) {
      x *= y;
    } else if (calls[r].share != 0) {
      x += y * calls[r].share;
    }
  }
  return (float)(op == RG_COMM_MEAN ? x / lib.size : x);
}

static void carry_out(const rg_comm_call *calls)
{
  const int64_t n = calls[0].count;
  float *whole = malloc((size_t)(n * lib.size) * sizeof(*whole));

  if (whole == NULL) tap_bail("no memory");
  for (int64_t i = 0; i < n * lib.size; i++) {
    whole[i] = calls[0].kind == RG_COMM_ALL_GATHER ? ((const float *)calls[i / n].in)[i % n]
               : calls[0].kind == RG_COMM_BROADCAST
                   ? ((const float *)calls[calls[0].root].in)[i % n]
                   : reduced(calls, i % n);
  }
  for (int32_t r = 0; r < lib.size; r++) {
    int64_t first = 0;
    int64_t part = calls[0].kind == RG_COMM_ALL_GATHER ? n * lib.size : n;

    if (calls[0].kind == RG_COMM_REDUCE_SCATTER) {
      rg_group_part(n / calls[0].unit, r, lib.size, &first, &part);
      first *= calls[0].unit;
      part *= calls[0].unit;
    }
    memcpy(calls[r].out, whole + first, (size_t)part * sizeof(*whole));
  }
  free(whole);
}

static rg_status lib_start(void *self, const rg_comm_call *call)
{
  comm *c = self;
  int64_t k = c->started;

  if (does(START, c->device)) return rg_fail(RG_ENET, "it starts nothing");
  ((mark *)call->begun)->at = 0;
  atomic_store(&c->asked, 0);
  pthread_mutex_lock(&lib.lock);
  if (k >= CALLS) tap_bail("too many calls");
  if (((mark *)call->behind)->at != 0) tap_bail("a mark that was not set");
  c->started = k + 1;
  lib.calls[k][c->rank] = *call;
  if (++lib.came[k] == lib.size) {
    carry_out(lib.calls[k]);
    lib.n_done = k + 1;
  }
  pthread_mutex_unlock(&lib.lock);
  return RG_OK;
}

static rg_status lib_settled(void *self, bool *done)
{
  comm *c = self;

  if (does(SETTLED, c->device)) return rg_fail(RG_ENET, "its network is gone");
  *done =
      !does(NEVER, c->device) && (!does(SLOW, c->device) || atomic_fetch_add(&c->asked, 1) >= 20);
  return RG_OK;
}

static rg_status lib_set(void *self, void *m)
{
  comm *c = self;

  if (does(SET, c->device)) return rg_fail(RG_EDEVICE, "no mark behind it");
  ((mark *)m)->at = c->started;
  return RG_OK;
}

static rg_status lib_passed(void *self, void *m, bool *passed)
{
  comm *c = self;
  int64_t at = ((mark *)m)->at;

  if (does(PASSED, c->device)) return rg_fail(RG_EDEVICE, "it is lost");
  pthread_mutex_lock(&lib.lock);
  *passed = !does(BEGINS_LATE, c->device) &&
            (at == 0 || (at > 0 && at <= lib.n_done && !does(HANGS, c->device)));
  pthread_mutex_unlock(&lib.lock);
  return RG_OK;
}

static void lib_give_up(void *self, const char *why)
{
  comm *c = self;

  pthread_mutex_lock(&lib.lock);
  c->given_up = true;
  lib.n_given_up++;
  snprintf(lib.why, sizeof(lib.why), "%s", why != NULL ? why : "-");
  pthread_mutex_unlock(&lib.lock);
}

static rg_status lib_leave(void *self)
{
  comm *c = self;

  if (does(LEAVE, c->device)) return rg_fail(RG_ENET, "it cannot leave");
  pthread_mutex_lock(&lib.lock);
  c->left = true;
  lib.n_left++;
  pthread_mutex_unlock(&lib.lock);
  return RG_OK;
}

static void lib_release(void *self)
{
  comm *c = self;

  pthread_mutex_lock(&lib.lock);
  if (!c->left && !c->given_up) tap_bail("released, and neither left nor given up");
  lib.n_released++;
  pthread_mutex_unlock(&lib.lock);
}

static const rg_comms comms = { .name = "library",
                                .open = lib_open,
                                .make_id = lib_make_id,
                                .join = lib_join,
                                .start = lib_start,
                                .settled = lib_settled,
                                .set = lib_set,
                                .passed = lib_passed,
                                .give_up = lib_give_up,
                                .leave = lib_leave,
                                .release = lib_release };

static rg_driver driver = { .take = host_take,
                            .give = host_give,
                            .lost = host_done,
                            .pin = host_pin,
                            .copy = host_copy,
                            .wait = host_done,
                            .facts = facts,
                            .enter = host_enter,
                            .join = host_join,
                            .mark_new = mark_new,
                            .mark_free = mark_free,
                            .mark_set = mark_set,
                            .mark_follow = mark_follow,
                            .comms = &comms };
static rg_driver bare;

/* -- A job ------------------------------------------------------------------------------------- */

static net all;
static rg_group *group[MOST];
static int32_t size;
static float in[RANKS][12];
static float out[RANKS][36];

static void begin(int32_t n, double timeout)
{
  let_none();
  for (int32_t i = 0; i < lib.n_all; i++) {
    free(lib.all[i]);
  }
  memset(lib.came, 0, sizeof(lib.came));
  lib.n_all = lib.n_left = lib.n_given_up = lib.n_released = 0;
  lib.n_done = 0;
  lib.why[0] = '\0';
  atomic_store(&follows, 0);
  size = n;
  open_all(&all, n, group);
  for (int32_t r = 0; r < n; r++) {
    is_status(rg_group_set_timeout(group[r], timeout), RG_OK, "a timeout");
    for (int32_t i = 0; i < 12; i++) {
      in[r][i] = (float)(100 * r + i + 1);
    }
  }
  memset(out, 0, sizeof(out));
}

static void end(void)
{
  close_all(&all, group);
  is_int(atomic_load(&marks), 0, "no mark is left");
}

static rg_group_call call_of(int32_t r, int32_t kind, int32_t op)
{
  return (rg_group_call){ .kind = kind,
                          .op = op,
                          .dtype = RG_F32,
                          .count = 12,
                          .unit = 1,
                          .weight = 1,
                          .in = in[r],
                          .out = out[r],
                          .device = r + 1 };
}

/* All start a call, and wait for it; the status of the last of them that fails. */
static rg_status run_all(rg_group_call *calls)
{
  int64_t tickets[RANKS];
  rg_status status = RG_OK;

  for (int32_t r = 0; r < size; r++) {
    tickets[r] = -1;
    rg_status st = rg_group_reach(group[r], calls[r].device);
    if (st == RG_OK) st = rg_group_start(group[r], &calls[r], &tickets[r]);
    if (st != RG_OK) status = st;
  }
  for (int32_t r = 0; r < size; r++) {
    rg_status st = tickets[r] >= 0 ? rg_group_wait(group[r], tickets[r]) : RG_OK;
    if (st != RG_OK) status = st;
  }
  return status;
}

static rg_status run(int32_t kind, int32_t op)
{
  rg_group_call calls[RANKS];

  for (int32_t r = 0; r < size; r++) {
    calls[r] = call_of(r, kind, op);
  }
  return run_all(calls);
}

static int64_t n_done(void)
{
  int64_t n;

  pthread_mutex_lock(&lib.lock);
  n = lib.n_done;
  pthread_mutex_unlock(&lib.lock);
  return n;
}

/* What a rank is told at last: a call has failed behind the wait for it. */
static rg_status comes(int32_t r)
{
  rg_status status = RG_OK;
  int64_t ticket;

  for (int i = 0; i < 2000 && status == RG_OK; i++) {
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    status = rg_group_start(group[r], &(rg_group_call){ .kind = -1 }, &ticket);
    if (status == RG_EARG) status = rg_group_wait(group[r], 0);
  }
  return status;
}

static void says(const char *text, const char *what)
{
  if (!ok(strstr(rg_error_message(), text) != NULL, what)) printf("#   %s\n", rg_error_message());
}

static void register_devices(void)
{
  for (int32_t d = 1; d <= RANKS; d++) {
    rg_driver_register(d, &driver);
  }
  rg_driver_register(SPARE, &driver);
  bare = driver;
  bare.comms = NULL;
  rg_driver_register(BARE, &bare);
}

#endif
