/* SPDX-License-Identifier: MIT */
/*
** Lending: what a layout's memory has free while one step runs.  How much a kernel works in is
** known when it first runs, and the layout was made before.  So it gets the smallest gap between
** the blocks that live then which holds it, or lies behind the last one of them, where the
** memory can grow: what steps work in one after the other lies in the same place.
*/
#include <stdlib.h>

#include "base/layout.h"

enum { ALIGN = 64, MOST_LIVE = 4096 };

/* Blocks that live at a time, as numbers in `open`. */
static void move_to(rg_slots *s, int32_t at)
{
  if (!s->lends || at < s->lent_at) {
    s->n_open = s->next = 0;
    s->lends = true;
  }
  for (int32_t k = s->n_open - 1; k >= 0; k--) {
    if (s->at[s->at[k].open].to <= at) {
      s->at[k].open = s->at[--s->n_open].open;
    }
  }
  for (; s->next < s->n && s->at[s->next].from <= at; s->next++) {
    if (s->at[s->next].to > at) {
      s->at[s->n_open++].open = s->next;
    }
  }
  s->lent_at = at;
}

static int by_offset(const void *a, const void *b)
{
  const int64_t x = ((const rg_lent *)a)->offset;
  const int64_t y = ((const rg_lent *)b)->offset;

  return x != y ? (x < y ? -1 : 1) : 0;
}

/* What is in use, by offset, and its bytes: also of blocks that lie elsewhere. */
static int32_t find_used(const rg_slots *s, rg_lent *used, int64_t *bytes)
{
  int32_t n = 0;

  *bytes = 0;
  for (int32_t k = 0; k < s->n_open; k++) {
    const rg_slot *slot = &s->at[s->at[k].open];

    *bytes += slot->bytes;
    if (slot->offset >= 0) {
      used[n++] = (rg_lent){ slot->offset, slot->bytes };
    }
  }
  for (int32_t k = 0; k < s->n_lent; k++) {
    *bytes += s->lent[k].bytes;
    used[n++] = s->lent[k];
  }
  qsort(used, (size_t)n, sizeof(*used), by_offset);
  return n;
}

/* From base; the memory's end may lie before that of what is put there.  -1: there is none. */
static int64_t find_place(const rg_slots *s, const rg_lent *used, int32_t n, int64_t bytes)
{
  int64_t end = 0;
  int64_t best = -1;
  int64_t least = INT64_MAX;

  for (int32_t i = 0; i <= n; i++) {
    const int64_t gap = (i < n ? used[i].offset : s->total) - end;

    if (gap >= bytes && gap < least) {
      least = gap;
      best = end;
    }
    end = i < n ? rg_max_i64(end, used[i].offset + used[i].bytes) : end;
  }
  return best >= 0 ? best : end + bytes <= s->most ? end : -1;
}

void *rg_slots_lend(rg_slots *s, int32_t at, int64_t bytes)
{
  const int64_t whole = rg_round_up(rg_max_i64(bytes, 1), ALIGN);
  int64_t place = -1;
  int64_t live;

  if (s->base == NULL || s->failed || s->strays || at < 0) {
    return NULL;
  }
  move_to(s, at);
  rg_lent *used = s->n_open <= MOST_LIVE && s->n_lent < RG_MOST_LENT
                      ? rg_host_alloc((size_t)(s->n_open + s->n_lent + 1) * sizeof(*used))
                      : NULL;

  if (used != NULL) {
    const int32_t n = find_used(s, used, &live);

    s->live = rg_max_i64(s->live, live + whole);
    place = find_place(s, used, n, whole);
  }
  rg_host_free(used);
  const int64_t more = place + whole - s->total;

  if (place < 0 || (more > 0 && !rg_system_grow(more))) {
    return NULL;
  }
  s->total += rg_max_i64(more, 0);
  s->lent[s->n_lent++] = (rg_lent){ place, whole };
  return s->base + place;
}

bool rg_slots_repay(rg_slots *s, const void *data)
{
  for (int32_t k = s->n_lent - 1; k >= 0; k--) {
    if (s->base + s->lent[k].offset == (const char *)data) {
      s->lent[k] = s->lent[--s->n_lent];
      return true;
    }
  }
  return false;
}
