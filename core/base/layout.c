/* SPDX-License-Identifier: MIT */
/*
** Offsets from lifetimes.  The largest blocks are placed first, each where the smallest gap between
** those that live at the same time holds it (greedy by size: Pisarchyk and Lee, Efficient memory
** management for deep neural net inference, 2020); then the last ones first, and the first ones
** first, as sizes that grow or shrink along a net want it.  The smallest of the three is taken.
*/
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"

enum {
  ALIGN = 64,
  MOST_SLOTS = 1 << 22,
  MOST_CROWDED = 20000, /* where many live at one time, each is held against all: no more of them */
  MOST_TRIES = 64,      /* orders that are tried, */
  MOST_PLACED = 100000, /* and blocks that are placed in them */
  FEW = 32,             /* that live when another is asked for, on average */
};

/* -- Blocks in use ----------------------------------------------------------------------------- */

/* Their numbers stand in the first n_open elements, in no order. */
static void open_slot(rg_slots *s, int32_t slot)
{
  s->at[s->n_open++].open = slot;
}

static void close_slot(rg_slots *s, int32_t k)
{
  s->at[k].open = s->at[--s->n_open].open;
}

/* -- Notes ------------------------------------------------------------------------------------- */

void rg_slots_took(rg_slots *s, const void *data, int64_t bytes)
{
  if (s->failed) {
    return;
  }
  if (s->n == s->room) {
    const int32_t room = 2 * s->room + 64;
    rg_slot *at = room <= MOST_SLOTS ? rg_host_alloc((size_t)room * sizeof(*at)) : NULL;

    if (at == NULL) {
      s->failed = true;
      s->no_memory = room <= MOST_SLOTS;
      return;
    }
    if (s->n > 0) {
      memcpy(at, s->at, (size_t)s->n * sizeof(*at));
    }
    rg_host_free(s->at);
    s->at = at;
    s->room = room;
  }
  s->at[s->n] = (rg_slot){
    .bytes = rg_round_up(rg_max_i64(bytes, 1), ALIGN), .offset = -1, .from = ++s->now, .data = data
  };
  open_slot(s, s->n++);
}

void rg_slots_gave(rg_slots *s, const void *data)
{
  for (int32_t k = s->n_open - 1; k >= 0; k--) {
    rg_slot *slot = &s->at[s->at[k].open];

    if (slot->data == data) {
      slot->to = ++s->now;
      close_slot(s, k);
      return;
    }
  }
}

/* -- Who lives at the same time ---------------------------------------------------------------- */

/* What laying out works with. */
typedef struct rg_laying {
  rg_slots *s;
  rg_slot **order;  /* that blocks are placed in */
  rg_slot **placed; /* by offset: all that are placed, or those that live with the one to place */
  int32_t n;        /* blocks to place */
  int32_t *first;   /* by block: where its part of `before` begins, and one more */
  int32_t *before;  /* blocks that were asked for earlier than another and live then */
  bool crowded;     /* there are too many of those: each block is held against all */
} rg_laying;

static rg_status laying_new(rg_laying *l)
{
  const size_t n = (size_t)l->s->n + 1;

  l->order = rg_host_alloc(n * sizeof(*l->order));
  l->placed = rg_host_alloc(n * sizeof(*l->placed));
  l->first = rg_host_alloc(n * sizeof(*l->first));
  l->before = rg_host_alloc(n * FEW * sizeof(*l->before));
  return l->order != NULL && l->placed != NULL && l->first != NULL && l->before != NULL ? RG_OK
                                                                                        : RG_ENOMEM;
}

static void laying_end(rg_laying *l)
{
  rg_host_free((void *)l->order);
  rg_host_free((void *)l->placed);
  rg_host_free(l->first);
  rg_host_free(l->before);
}

/* Blocks stand in the order in which they were asked for. */
static void find_before(rg_laying *l)
{
  rg_slots *s = l->s;
  int32_t n = 0;

  s->n_open = 0;
  for (int32_t i = 0; i < s->n && !l->crowded; i++) {
    l->first[i] = n;
    for (int32_t k = s->n_open - 1; k >= 0; k--) {
      if (s->at[s->at[k].open].to < s->at[i].from) {
        close_slot(s, k);
      }
    }
    l->crowded = s->n_open > FEW * s->n - n;
    for (int32_t k = 0; k < s->n_open && !l->crowded; k++) {
      l->before[n++] = s->at[k].open;
    }
    open_slot(s, i);
  }
  l->first[s->n] = n;
  s->n_open = 0;
}

/* The largest sum of blocks at one time, of those that are given back by `end`.  -1: no memory. */
static int64_t sum_live(const rg_slots *s, int32_t end)
{
  int64_t *change = rg_host_zeroed((size_t)(s->now + 2) * sizeof(*change));
  int64_t live = 0;
  int64_t most = 0;

  if (change == NULL) {
    return -1;
  }
  for (int32_t i = 0; i < s->n; i++) {
    if (s->at[i].to <= end) {
      change[s->at[i].from] += s->at[i].bytes;
      change[s->at[i].to] -= s->at[i].bytes;
    }
  }
  for (int32_t i = 0; i <= s->now; i++) {
    live += change[i];
    most = rg_max_i64(most, live);
  }
  rg_host_free(change);
  return most;
}

/* -- Offsets ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
  const rg_slot *x = *(const rg_slot *const *)a;
  const rg_slot *y = *(const rg_slot *const *)b;

  return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->from - y->from;
}

static int last_first(const void *a, const void *b)
{
  return (*(const rg_slot *const *)b)->from - (*(const rg_slot *const *)a)->from;
}

static int first_first(const void *a, const void *b)
{
  return last_first(b, a);
}

static int by_offset(const void *a, const void *b)
{
  const int64_t x = (*(const rg_slot *const *)a)->offset;
  const int64_t y = (*(const rg_slot *const *)b)->offset;

  return x != y ? (x < y ? -1 : 1) : 0;
}

/* Where a block lies best among n that are placed, in the order of their offsets. */
static int64_t find_gap(rg_slot *const *placed, int32_t n, const rg_slot *slot)
{
  int64_t end = 0; /* of those before that live at the same time */
  int64_t best = -1;
  int64_t least = INT64_MAX;

  for (int32_t i = 0; i < n; i++) {
    const rg_slot *other = placed[i];

    if (other->to < slot->from || other->from > slot->to) {
      continue;
    }
    const int64_t gap = other->offset - end;

    if (gap >= slot->bytes && gap < least) {
      least = gap;
      best = end;
    }
    end = rg_max_i64(end, other->offset + other->bytes);
  }
  return best >= 0 ? best : end;
}

/* Placed blocks that live with one: were asked for before it, or while it is in use. */
static int32_t find_near(const rg_laying *l, const rg_slot *slot)
{
  const rg_slots *s = l->s;
  const int32_t number = (int32_t)(slot - s->at);
  int32_t n = 0;

  for (int32_t k = l->first[number]; k < l->first[number + 1]; k++) {
    rg_slot *other = &s->at[l->before[k]];

    if (other->offset >= 0) {
      l->placed[n++] = other;
    }
  }
  for (int32_t i = number + 1; i < s->n && s->at[i].from <= slot->to; i++) {
    if (s->at[i].offset >= 0) {
      l->placed[n++] = &s->at[i];
    }
  }
  qsort((void *)l->placed, (size_t)n, sizeof(*l->placed), by_offset);
  return n;
}

/* Keep the placed blocks, n so far, in the order of their offsets. */
static void insert(const rg_laying *l, int32_t n, rg_slot *slot)
{
  for (; n > 0 && l->placed[n - 1]->offset > slot->offset; n--) {
    l->placed[n] = l->placed[n - 1];
  }
  l->placed[n] = slot;
}

/* Place blocks one after the other.  Returns the end of the last one in memory. */
static int64_t place_in_order(const rg_laying *l)
{
  int64_t total = 0;

  for (int32_t i = 0; i < l->n; i++) {
    l->order[i]->offset = -1;
  }
  for (int32_t i = 0; i < l->n; i++) {
    rg_slot *slot = l->order[i];

    slot->offset = find_gap(l->placed, l->crowded ? i : find_near(l, slot), slot);
    if (l->crowded) {
      insert(l, i, slot);
    }
    total = rg_max_i64(total, slot->offset + slot->bytes);
  }
  return total;
}

/* Keep the offsets that take `total` where none so far take less. */
static int64_t keep_best(const rg_laying *l, int64_t total, int64_t least)
{
  for (int32_t i = 0; i < l->n && total < least; i++) {
    l->order[i]->best = l->order[i]->offset;
  }
  return rg_min_i64(least, total);
}

/* The block that ends last is placed first from here on.  false: it was. */
static bool raise_last(const rg_laying *l, int64_t total)
{
  int32_t k = 0;

  while (k < l->n - 1 && l->order[k]->offset + l->order[k]->bytes < total) {
    k++;
  }
  rg_slot *slot = l->order[k];

  memmove((void *)&l->order[1], (void *)&l->order[0], (size_t)k * sizeof(*l->order));
  l->order[0] = slot;
  return k > 0;
}

/* Where orders by one property leave more than a fiftieth: from the largest first on. */
static int64_t repair(const rg_laying *l, int64_t live, int64_t least)
{
  int64_t tries = rg_min_i64(MOST_TRIES, MOST_PLACED / rg_max_i64(l->n, 1));

  qsort((void *)l->order, (size_t)l->n, sizeof(*l->order), by_size);
  for (; tries > 0 && least > live + live / 50; tries--) {
    const int64_t total = place_in_order(l);

    least = keep_best(l, total, least);
    if (!raise_last(l, total)) {
      break;
    }
  }
  return least;
}

/* Place what is given back by `end` in the best of three orders, and of what mends the first.
** Returns how much memory that takes, -1: there was none to find out. */
static int64_t place_all(rg_laying *l, int32_t end)
{
  static int (*const orders[])(const void *a, const void *b) = { by_size, last_first, first_first };
  enum { N_ORDERS = sizeof(orders) / sizeof(orders[0]) };
  rg_slots *s = l->s;
  const int64_t live = sum_live(s, end); /* it cannot be less */
  int64_t least = INT64_MAX;

  l->n = 0;
  for (int32_t i = 0; i < s->n; i++) {
    s->at[i].offset = s->at[i].best = -1;
    if (s->at[i].to <= end) {
      l->order[l->n++] = &s->at[i];
    }
  }
  for (int32_t k = 0; k < N_ORDERS && least > live; k++) {
    qsort((void *)l->order, (size_t)l->n, sizeof(*l->order), orders[k]);
    const int64_t total = place_in_order(l);

    least = keep_best(l, total, least);
  }
  least = l->crowded ? least : repair(l, live, least);
  for (int32_t i = 0; i < s->n; i++) {
    s->at[i].offset = s->at[i].best;
  }
  return live >= 0 ? least : -1;
}

/* What is never given back lives to the end.  Returns its bytes. */
static int64_t end_all(rg_slots *s)
{
  int64_t bytes = 0;

  for (int32_t i = 0; i < s->n; i++) {
    if (s->at[i].to == 0) {
      s->at[i].to = s->now + 1;
      bytes += s->at[i].bytes;
    }
  }
  return bytes;
}

static rg_status place(rg_laying *l)
{
  rg_slots *s = l->s;
  const int64_t kept = end_all(s);

  s->end = s->now + 1;

  find_before(l);
  s->failed = l->crowded && s->n > MOST_CROWDED;
  if (s->failed) {
    return RG_OK;
  }
  s->live = sum_live(s, s->now + 1);
  s->total = place_all(l, s->now + 1);
  if (s->live >= 0 && s->total >= 0 && kept > 0) {
    const int64_t with = s->total;

    s->total = place_all(l, s->now);
    if (s->total >= 0 && s->total + kept > with + with / 20) {
      s->total = place_all(l, s->now + 1);
    }
  }
  return s->live >= 0 && s->total >= 0 ? RG_OK : RG_ENOMEM;
}

rg_status rg_slots_lay_out(rg_slots *s)
{
  rg_laying l = { .s = s };
  rg_status status = s->no_memory ? RG_ENOMEM : RG_OK;

  if (status == RG_OK && !s->failed) {
    status = laying_new(&l);
    status = status == RG_OK ? place(&l) : status;
  }
  laying_end(&l);
  return status == RG_OK ? RG_OK : rg_fail(RG_ENOMEM, "memory: no room to lay out a plan");
}

/* -- Obeying ----------------------------------------------------------------------------------- */

/* Is some block in use where this one is to lie? */
static bool is_taken(const rg_slots *s, const rg_slot *slot)
{
  for (int32_t k = 0; k < s->n_open; k++) {
    const rg_slot *other = &s->at[s->at[k].open];

    if (other->offset < slot->offset + slot->bytes && slot->offset < other->offset + other->bytes) {
      return true;
    }
  }
  return false;
}

void *rg_slots_place(rg_slots *s, int64_t bytes)
{
  rg_slot *slot = s->next < s->n ? &s->at[s->next] : NULL;

  if (s->failed || s->base == NULL) {
    return NULL;
  }
  if (slot == NULL || slot->bytes != rg_round_up(rg_max_i64(bytes, 1), ALIGN)) {
    s->failed = true; /* the calls are others than those that were noted */
    return NULL;
  }
  s->now++;
  if (slot->offset < 0 || is_taken(s, slot)) {
    s->strays = s->strays || slot->offset >= 0;
    s->next++;
    return NULL;
  }
  open_slot(s, s->next++);
  return s->base + slot->offset;
}

bool rg_slots_return(rg_slots *s, const void *data)
{
  const char *at = data;

  if (s->base == NULL || at < s->base || at >= s->base + s->total) {
    return false;
  }
  for (int32_t k = s->n_open - 1; k >= 0 && !s->lends; k--) {
    const rg_slot *slot = &s->at[s->at[k].open];

    if (s->base + slot->offset == at) {
      s->strays = s->strays || (slot->to < s->end && slot->to != ++s->now);
      close_slot(s, k);
      break;
    }
  }
  return true;
}

void rg_slots_end(rg_slots *s)
{
  rg_host_free(s->at);
  *s = (rg_slots){ 0 };
}
