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

enum { ALIGN = 64, MOST_SLOTS = 20000 };

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
  s->at[s->n++] = (rg_slot){
    .bytes = rg_round_up(rg_max_i64(bytes, 1), ALIGN), .offset = -1, .from = ++s->now, .data = data
  };
}

void rg_slots_gave(rg_slots *s, const void *data)
{
  for (int32_t i = s->n - 1; i >= 0; i--) {
    if (s->at[i].data == data && s->at[i].to == 0) {
      s->at[i].to = ++s->now;
      return;
    }
  }
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

/* Place n blocks one after the other.  Returns the end of the last one in memory. */
static int64_t place_in_order(rg_slot *const *order, rg_slot **placed, int32_t n)
{
  int64_t total = 0;

  for (int32_t i = 0; i < n; i++) {
    rg_slot *slot = order[i];
    int32_t at = i;

    slot->offset = find_gap(placed, i, slot);
    for (; at > 0 && placed[at - 1]->offset > slot->offset; at--) {
      placed[at] = placed[at - 1];
    }
    placed[at] = slot;
    total = rg_max_i64(total, slot->offset + slot->bytes);
  }
  return total;
}

/* Is a block part of the layout?  all: those that are never given back, too. */
static bool is_placed(const rg_slot *slot, bool all, int32_t end)
{
  return all || (slot->to != 0 && slot->to <= end);
}

/* Place blocks in the best of three orders.  Returns how much memory that takes. */
static int64_t place_all(rg_slots *s, rg_slot **order, rg_slot **placed, bool all)
{
  static int (*const orders[])(const void *a, const void *b) = { by_size, last_first, first_first };
  enum { N_ORDERS = sizeof(orders) / sizeof(orders[0]) };
  int64_t least = INT64_MAX;
  int32_t n = 0;
  int32_t best = 0;

  for (int32_t i = 0; i < s->n; i++) {
    s->at[i].offset = -1;
    if (is_placed(&s->at[i], all, s->now)) {
      order[n++] = &s->at[i];
    }
  }
  for (int32_t i = 0; i <= N_ORDERS; i++) { /* once more in the best one */
    const int32_t now = i < N_ORDERS ? i : best;

    qsort((void *)order, (size_t)n, sizeof(*order), orders[now]);
    const int64_t total = place_in_order(order, placed, n);

    best = total < least ? now : best;
    least = rg_min_i64(least, total);
  }
  return least;
}

/* The largest sum of blocks at one time.  false: no memory. */
static bool sum_live(rg_slots *s)
{
  int64_t *change = rg_host_zeroed((size_t)(s->now + 2) * sizeof(*change));
  int64_t live = 0;

  for (int32_t i = 0; change != NULL && i < s->n; i++) {
    if (s->at[i].to != 0) {
      change[s->at[i].from] += s->at[i].bytes;
      change[s->at[i].to] -= s->at[i].bytes;
    }
  }
  for (int32_t i = 0; change != NULL && i <= s->now; i++) {
    live += change[i];
    s->live = rg_max_i64(s->live, live);
  }
  rg_host_free(change);
  return change != NULL;
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

rg_status rg_slots_lay_out(rg_slots *s)
{
  const size_t bytes = (size_t)(s->n + 1) * sizeof(rg_slot *);
  rg_slot **order = rg_host_alloc(bytes);
  rg_slot **placed = rg_host_alloc(bytes);
  bool got = order != NULL && placed != NULL && !s->no_memory;

  if (got && !s->failed) {
    const int64_t kept = end_all(s);

    s->total = place_all(s, order, placed, true);
    if (place_all(s, order, placed, false) + kept <= s->total + s->total / 20) {
      s->total = place_all(s, order, placed, false);
    } else {
      s->total = place_all(s, order, placed, true);
    }
    got = sum_live(s);
  }
  rg_host_free((void *)order);
  rg_host_free((void *)placed);
  return got ? RG_OK : rg_fail(RG_ENOMEM, "memory: no room to lay out a plan");
}

/* -- Obeying ----------------------------------------------------------------------------------- */

/* Is some block in use where this one is to lie? */
static bool is_taken(const rg_slots *s, const rg_slot *slot)
{
  for (int32_t i = 0; i < s->next; i++) {
    const rg_slot *other = &s->at[i];

    if (other->used && other->offset < slot->offset + slot->bytes &&
        slot->offset < other->offset + other->bytes) {
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
  if (slot->offset < 0 || is_taken(s, slot)) {
    s->next++;
    return NULL;
  }
  s->next++;
  slot->used = true;
  return s->base + slot->offset;
}

bool rg_slots_return(rg_slots *s, const void *data)
{
  const char *at = data;

  if (s->base == NULL || at < s->base || at >= s->base + s->total) {
    return false;
  }
  for (int32_t i = s->next - 1; i >= 0; i--) {
    if (s->at[i].used && s->base + s->at[i].offset == at) {
      s->at[i].used = false;
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
