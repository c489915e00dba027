/* SPDX-License-Identifier: MIT */
/*
** Offsets from lifetimes.  The largest blocks are placed first, each where the smallest gap between
** those that live at the same time holds it (greedy by size: Pisarchyk and Lee, Efficient memory
** management for deep neural net inference, 2020).
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

static void place_all(rg_slots *s, rg_slot **order, rg_slot **placed)
{
  int32_t n = 0;
  int32_t n_placed = 0;

  for (int32_t i = 0; i < s->n; i++) {
    if (s->at[i].to != 0) {
      order[n++] = &s->at[i];
    }
  }
  qsort((void *)order, (size_t)n, sizeof(*order), by_size);
  for (int32_t i = 0; i < n; i++) {
    rg_slot *slot = order[i];
    int32_t at = n_placed++;

    slot->offset = find_gap(placed, n_placed - 1, slot);
    for (; at > 0 && placed[at - 1]->offset > slot->offset; at--) {
      placed[at] = placed[at - 1];
    }
    placed[at] = slot;
    s->total = rg_max_i64(s->total, slot->offset + slot->bytes);
  }
}

/* The largest sum of blocks at one time. */
static void sum_live(rg_slots *s)
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
}

void rg_slots_lay_out(rg_slots *s)
{
  const size_t bytes = (size_t)(s->n + 1) * sizeof(rg_slot *);
  rg_slot **order = rg_host_alloc(bytes);
  rg_slot **placed = rg_host_alloc(bytes);

  s->failed = s->failed || order == NULL || placed == NULL;
  if (!s->failed) {
    place_all(s, order, placed);
    sum_live(s);
  }
  rg_host_free((void *)order);
  rg_host_free((void *)placed);
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
