/* SPDX-License-Identifier: MIT */
/*
** Collectives out of messages from one rank to another.
**
** Before each one every rank tells all others what it is about to do.  So a rank that does
** something else is told of before a byte of data is sent, and one that does not come is known by
** name: a blocking collective of MPI's says neither, and cannot be left again.
**
** All-reduce is a reduce-scatter and an all-gather: each rank receives its part of what the others
** have, adds the parts up in the order of the ranks, and sends them what came out.  Each byte of
** the result is computed in one place, so all have the same bits.
*/
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "dist/group.h"

/* A message is at most this long: longer ones go in pieces, each of which is progress. */
enum { PIECE = 1 << 24 };
enum { YIELD_LONG_NS = 100000, NO_YIELD_NS = 3000000, YIELDS_NS = 100000 };
enum { SHORT_NAP_NS = 5000, LONG_NAP_NS = 1000000, WAKING_NS = 10000, MOST_WORK_NS = 500000 };
enum { WATCH_NS = 2000000 }; /* so often what devices have not done is looked at meanwhile */
enum { MOVED_NS = 3000 };    /* who asks for a message so long has moved bytes of one */

static const char *const KINDS[RG_GROUP_KINDS] = { "barrier", "broadcast", "all_gather",
                                                   "reduce_scatter", "all_reduce" };
static const char *const OPS[RG_GROUP_OPS] = { "sum",           "mean", "max",
                                               "weighted mean", "min",  "product" };

const char *rg_group_text(int32_t kind, int32_t op, int32_t dtype, int64_t count, char *text,
                          size_t size)
{
  bool known = kind >= 0 && kind < RG_GROUP_KINDS && op >= 0 && op < RG_GROUP_OPS;

  if (!known || kind == RG_GROUP_BARRIER) {
    snprintf(text, size, "%s", known ? KINDS[kind] : "something unknown");
  } else if (kind == RG_GROUP_REDUCE_SCATTER || kind == RG_GROUP_ALL_REDUCE) {
    snprintf(text, size, "%s, %s of %lld %s", KINDS[kind], OPS[op], (long long)count,
             rg_dtype_name(dtype));
  } else {
    snprintf(text, size, "%s of %lld %s", KINDS[kind], (long long)count, rg_dtype_name(dtype));
  }
  return text;
}

/* -- Waiting ----------------------------------------------------------------------------------- */

/* Slots of messages: those that come, by rank, then those that go. */
static int32_t sending(const rg_group_work *w, int32_t peer)
{
  return w->transport.size + peer;
}

/* "rank 2 has", "ranks 2 and 3 have": whose message is waited for; those that do not take one where
** all have sent theirs. */
static const char *who(const rg_group_work *w, char *text, size_t size)
{
  int32_t n = w->transport.size;
  int32_t base = 0;
  int32_t left = 0;
  int32_t all;
  size_t at = 0;

  for (int32_t r = 0; r < n; r++) {
    left += w->waiting[r];
  }
  if (left == 0) {
    base = n;
    for (int32_t r = 0; r < n; r++) {
      left += w->waiting[n + r];
    }
  }
  all = left;
  text[0] = '\0';
  for (int32_t r = 0; r < n && at < size; r++) {
    if (w->waiting[base + r]) {
      left--;
      at += (size_t)snprintf(text + at, size - at, "%s%d%s",
                             at > 0     ? ""
                             : all == 1 ? "rank "
                                        : "ranks ",
                             r,
                             left > 1    ? ", "
                             : left == 1 ? " and "
                             : all == 1  ? " has"
                                         : " have");
    }
  }
  return text;
}

static rg_status is_late(const rg_group_work *w, const rg_group_call *call, bool came)
{
  char what[96];
  char names[160];
  char step[48] = "";
  double s = (double)atomic_load(&w->timeout_ns) / 1e9;
  long long number = (long long)atomic_load(&w->step);

  who(w, names, sizeof(names));
  rg_group_text(call->kind, call->op, call->dtype, call->count, what, sizeof(what));
  if (number > 0) snprintf(step, sizeof(step), " in step %lld", number);
  if (came) {
    return rg_fail(RG_ELATE,
                   "dist: %s come to collective %lld (%s)%s and not answered since, for %g s",
                   names, (long long)w->serial, what, step, s);
  }
  return rg_fail(RG_ELATE,
                 "dist: %s not come to collective %lld (%s)%s within %g s%s; the timeout is that "
                 "of ridge.dist.init",
                 names, (long long)w->serial, what, step, s,
                 w->serial > 1 ? ", and had come to all before" : "");
}

/*
** Rest between two looks.  Where the process waits for this call, little at first: another rank
** may need the processor, and may be about to answer.
**
** Where it computes, this thread has a processor at once when it wakes (group.c), but only if it
** has used no more of it than the one that computes has since: else it stands until the scheduler's
** next tick, up to 4 ms, which may be longer than the rest of a backward pass.  So it sleeps for as
** long as it has worked.  Nor does it yield: it would be behind for a slice, which no tick divides.
**
** quiet: for so long nothing has come.  What has been waited for some time is looked at more
** rarely, and seen late by no more than an eighth of that.
*/
static void rest(rg_group_work *w, const rg_group_call *call, int64_t now, int64_t quiet)
{
  const bool computes = !call->blocks && atomic_load(&w->awaited) == 0;
  int64_t ns = rg_max_i64(SHORT_NAP_NS, rg_min_i64(quiet / 8, LONG_NAP_NS));

  if (!computes && quiet < YIELDS_NS && now > w->yields_again) {
    sched_yield();
    if (rg_clock_ns() - now > YIELD_LONG_NS) w->yields_again = now + NO_YIELD_NS;
    return;
  }
  if (computes) ns = rg_max_i64(ns, rg_min_i64(now - w->woke, MOST_WORK_NS) + WAKING_NS);
  nanosleep(&(struct timespec){ .tv_nsec = (long)rg_min_i64(ns, LONG_NAP_NS) }, NULL);
  w->woke = rg_clock_ns();
}

/* Wait for the messages that are under way.  came: all ranks have told what they do. */
static rg_status settle(rg_group_work *w, const rg_group_call *call, bool came)
{
  int64_t since = rg_clock_ns(); /* a message was done */
  int64_t moved = since;         /* bytes of one came */
  int64_t watched = since;

  for (;;) {
    int64_t now = rg_clock_ns();
    int32_t left = 0;

    for (int32_t slot = 0; slot < 2 * w->transport.size; slot++) {
      int64_t looked = now;
      bool done = false;

      if (!w->waiting[slot]) continue;
      RG_TRY(w->transport.test(w->transport.self, slot, &done));
      now = rg_clock_ns();
      if (done) {
        w->waiting[slot] = false;
        since = now;
      }
      if (done || now - looked > MOVED_NS) moved = now;
      left += !done;
    }
    if (left == 0) {
      return RG_OK;
    }
    if (atomic_load(&w->stop)) {
      return rg_fail(RG_EINTR, "dist: interrupted");
    }
    if (now - since > atomic_load(&w->timeout_ns)) {
      return is_late(w, call, came);
    }
    if (now - watched > WATCH_NS && rg_device_calls_pend(w->devices)) {
      watched = now;
      RG_TRY(rg_device_calls_watch(w));
    }
    rest(w, call, now, now - moved);
  }
}

static rg_status send(rg_group_work *w, int32_t peer, int32_t tag, const void *bytes, int64_t n)
{
  w->waiting[sending(w, peer)] = true;
  return w->transport.send(w->transport.self, sending(w, peer), peer, tag, bytes, n);
}

static rg_status receive(rg_group_work *w, int32_t peer, int32_t tag, void *bytes, int64_t n)
{
  w->waiting[peer] = true;
  return w->transport.receive(w->transport.self, peer, peer, tag, bytes, n);
}

/* -- What the others do ------------------------------------------------------------------------ */

static rg_status compare(const rg_group_work *w, int32_t peer)
{
  const rg_announcement *a = &w->told[w->transport.rank];
  const rg_announcement *b = &w->told[peer];
  char mine[96];
  char other[96];

  if (a->serial == b->serial && a->kind == b->kind && a->op == b->op && a->dtype == b->dtype &&
      a->root == b->root && a->count == b->count && a->unit == b->unit && a->place == b->place) {
    return RG_OK;
  }
  rg_group_text(a->kind, a->op, a->dtype, a->count, mine, sizeof(mine));
  rg_group_text(b->kind, b->op, b->dtype, b->count, other, sizeof(other));
  if (a->root != b->root) {
    return rg_fail(RG_ENET,
                   "dist: collective %lld is from rank %d on rank %d and from rank %d here",
                   (long long)a->serial, b->root, peer, a->root);
  }
  if (a->place != b->place) {
    return rg_fail(RG_ENET,
                   "dist: collective %lld is of memory of %s on rank %d and of %s here (%s)",
                   (long long)a->serial, b->place != 0 ? "a GPU" : "the CPU", peer,
                   a->place != 0 ? "a GPU" : "the CPU", mine);
  }
  return rg_fail(RG_ENET,
                 "dist: collective %lld is %s on rank %d and %s here: all ranks call the same in "
                 "the same order",
                 (long long)a->serial, other, peer, mine);
}

static rg_status announce(rg_group_work *w, const rg_group_call *call)
{
  int32_t me = w->transport.rank;

  w->told[me] = (rg_announcement){ .serial = w->serial,
                                   .count = call->count,
                                   .unit = call->unit,
                                   .weight = call->weight,
                                   .kind = call->kind,
                                   .op = call->op,
                                   .dtype = call->dtype,
                                   .root = call->root,
                                   .place = call->device != RG_CPU };
  for (int32_t r = 0; r < w->transport.size; r++) {
    if (r == me) continue;
    RG_TRY(receive(w, r, RG_TAG_TOLD, &w->told[r], sizeof(w->told[r])));
    RG_TRY(send(w, r, RG_TAG_TOLD, &w->told[me], sizeof(w->told[me])));
  }
  RG_TRY(settle(w, call, false));
  for (int32_t r = 0; r < w->transport.size; r++) {
    RG_TRY(compare(w, r));
  }
  return RG_OK;
}

/* -- Data -------------------------------------------------------------------------------------- */

/* A range of bytes. */
typedef struct range {
  int64_t first;
  int64_t n;
} range;

/* Which elements a rank reduces, in bytes. */
static range part_of(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  int64_t bytes = rg_dtype_bytes(call->dtype) * call->unit;
  range part;

  rg_group_part(call->count / call->unit, rank, w->transport.size, &part.first, &part.n);
  return (range){ part.first * bytes, part.n * bytes };
}

/* Bytes of a rank's message that the piece at an offset has. */
static int64_t piece(int64_t n, int64_t at)
{
  return at >= n ? 0 : rg_min_i64(n - at, PIECE);
}

/*
** Send everybody a range and receive one of each.  sent, received: by rank, in from and to; where
** neither rank has anything to say, nothing is sent.
*/
static rg_status exchange(rg_group_work *w, const rg_group_call *call, const void *from,
                          range (*sent)(const rg_group_work *, const rg_group_call *, int32_t),
                          void *to,
                          range (*received)(const rg_group_work *, const rg_group_call *, int32_t))
{
  bool more = true;

  for (int64_t at = 0; more; at += PIECE) {
    more = false;
    for (int32_t r = 0; r < w->transport.size; r++) {
      range out = sent(w, call, r);
      range in = received(w, call, r);
      int64_t n = piece(in.n, at);
      int64_t m = piece(out.n, at);

      if (r == w->transport.rank) continue;
      if (n > 0) {
        RG_TRY(receive(w, r, RG_TAG_DATA, (char *)to + in.first + at, n));
      }
      if (m > 0) {
        RG_TRY(send(w, r, RG_TAG_DATA, (const char *)from + out.first + at, m));
      }
      more = more || in.n > at + PIECE || out.n > at + PIECE;
    }
    RG_TRY(settle(w, call, true));
  }
  return RG_OK;
}

static range whole(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  (void)w;
  (void)rank;
  return (range){ 0, call->count * rg_dtype_bytes(call->dtype) };
}

/* Each rank's place in what all_gather makes. */
static range place(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  range one = whole(w, call, rank);

  return (range){ rank * one.n, one.n };
}

static range own_part(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  (void)rank;
  return part_of(w, call, w->transport.rank);
}

/* Where the parts of the others for this rank are put: one behind the other. */
static range in_turn(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  range mine = part_of(w, call, w->transport.rank);

  return (range){ rank * mine.n, mine.n };
}

/* What a root sends, and what the others receive: nothing where neither is it. */
static range of_root(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  return w->transport.rank == call->root ? part_of(w, call, rank) : (range){ 0, 0 };
}

static range from_root(const rg_group_work *w, const rg_group_call *call, int32_t rank)
{
  return rank == call->root ? part_of(w, call, w->transport.rank) : (range){ 0, 0 };
}

static rg_status scratch(rg_group_work *w, int64_t bytes)
{
  if (bytes > w->scratch_bytes) {
    rg_host_free(w->scratch);
    w->scratch_bytes = 0;
    w->scratch = rg_host_alloc((size_t)bytes);
    if (w->scratch == NULL) {
      return rg_fail(RG_ENOMEM, "dist: no memory for %lld bytes that others send",
                     (long long)bytes);
    }
    w->scratch_bytes = bytes;
  }
  return RG_OK;
}

/* This rank's part of the result, into out at byte `first`. */
static rg_status reduce_part(rg_group_work *w, const rg_group_call *call, int64_t first)
{
  range mine = part_of(w, call, w->transport.rank);
  int32_t n = w->transport.size;
  const void **parts;
  double *weights;

  RG_TRY(scratch(w, (n + 1) * mine.n));
  parts = rg_host_alloc((size_t)n * (sizeof(void *) + sizeof(double)));
  if (parts == NULL) {
    return rg_fail(RG_ENOMEM, "dist: no memory");
  }
  weights = (double *)(void *)(parts + n);
  rg_status status = exchange(w, call, call->in, part_of, w->scratch, in_turn);
  if (status == RG_OK) {
    for (int32_t r = 0; r < n; r++) {
      parts[r] = r == w->transport.rank ? (const char *)call->in + mine.first
                                        : (const char *)w->scratch + in_turn(w, call, r).first;
      weights[r] = w->told[r].weight;
    }
    /* over this rank's own part, or where `out` is `in` and another place in it, beside it first */
    char *place = (char *)call->out + first;
    bool straight = call->out != call->in || first == mine.first;
    char *result = straight ? place : (char *)w->scratch + n * mine.n;

    rg_group_reduce(call->op, call->dtype, parts, weights, n, mine.n / rg_dtype_bytes(call->dtype),
                    result);
    if (!straight && mine.n > 0) memcpy(place, result, (size_t)mine.n);
  }
  rg_host_free(parts);
  return status;
}

/* Everybody's part to everybody. */
static rg_status spread(rg_group_work *w, const rg_group_call *call)
{
  return exchange(w, call, call->out, own_part, call->out, part_of);
}

/* A root sends each rank a part, and the ranks send each other theirs: it sends all of it once. */
static rg_status broadcast(rg_group_work *w, const rg_group_call *call)
{
  if (w->transport.rank == call->root && call->out != call->in && call->count > 0) {
    memcpy(call->out, call->in, (size_t)whole(w, call, 0).n);
  }
  RG_TRY(exchange(w, call, call->out, of_root, call->out, from_root));
  return spread(w, call);
}

rg_status rg_group_exchange(rg_group_work *w, const rg_group_call *call)
{
  int32_t me = w->transport.rank;

  switch (call->kind) {
  case RG_GROUP_BROADCAST:
    return broadcast(w, call);
  case RG_GROUP_ALL_GATHER:
    if (call->count > 0) {
      memcpy((char *)call->out + place(w, call, me).first, call->in, (size_t)whole(w, call, 0).n);
    }
    return exchange(w, call, call->in, whole, call->out, place);
  case RG_GROUP_REDUCE_SCATTER:
    return reduce_part(w, call, 0);
  case RG_GROUP_ALL_REDUCE:
    RG_TRY(reduce_part(w, call, part_of(w, call, me).first));
    return spread(w, call);
  default:
    return RG_OK;
  }
}

static void mark(const rg_group_call *call, int32_t which)
{
  if (call->times != NULL) call->times[which] = rg_clock_ns();
}

rg_status rg_group_run(rg_group_work *w, const rg_group_call *call)
{
  w->woke = rg_clock_ns();
  mark(call, RG_GROUP_BEGAN);
  RG_TRY(announce(w, call));
  mark(call, RG_GROUP_CAME);
  if (call->device == RG_CPU) RG_TRY(rg_group_exchange(w, call));
  mark(call, RG_GROUP_ENDED);
  return RG_OK;
}
