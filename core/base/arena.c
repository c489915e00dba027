/* SPDX-License-Identifier: MIT */
/*
** Arenas: what is known of one, and from where it takes.
*/
#include "base/arena.h"

rg_status rg_arena_new(rg_arena **out)
{
  rg_arena *arena = rg_host_zeroed(sizeof(*arena));

  if (arena == NULL) {
    return rg_fail(RG_ENOMEM, "memory: no room for an arena");
  }
  *out = arena;
  return RG_OK;
}

void rg_arena_lends(rg_arena *arena)
{
  arena->scratch = true;
}

void rg_arena_borrow(rg_arena *arena, rg_arena *from, int32_t at)
{
  arena->from = from;
  arena->from_at = at;
}

int32_t rg_arena_borrowed(const rg_arena *arena)
{
  return arena->from != NULL ? arena->from->layout.n_lent : 0;
}

int32_t rg_arena_time(const rg_arena *arena)
{
  return arena->layout.base != NULL && !arena->layout.failed ? arena->layout.now : -1;
}

void rg_arena_ran(rg_arena *arena, int32_t stream)
{
  arena->streams |= 1u << stream;
}

void rg_arena_note(rg_arena *arena, rg_slots *notes)
{
  arena->notes = notes;
}

int64_t rg_arena_bytes(const rg_arena *arena)
{
  return arena == NULL ? 0 : arena->bytes;
}

int64_t rg_arena_live(const rg_arena *arena)
{
  return arena->layout.base != NULL ? arena->layout.live : 0;
}
