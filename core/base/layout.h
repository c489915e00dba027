/* SPDX-License-Identifier: MIT */
/*
** Layouts of arenas: where each block of a plan lies, from how long it lives.
**
** The calls of a plan are captured twice.  First the arena notes what is asked for and when it is
** given back; from that offsets follow, so that blocks that live at the same time lie apart.  Then
** the arena obeys: the n-th request that is as it was gets the n-th place.  What is asked for
** otherwise, and what would meet a block that is still in use, gets a block of its own, as without
** a layout.  Only memory of the CPU is laid out.
*/
#ifndef RIDGE_BASE_LAYOUT_H
#define RIDGE_BASE_LAYOUT_H

#include "base/base.h"

typedef struct rg_slot {
  int64_t bytes;    /* rounded up */
  int64_t offset;   /* -1: it is never given back, and is no part of the layout */
  int32_t from;     /* when it was asked for and given back, counted in requests and returns */
  int32_t to;       /* 0: not yet */
  int64_t best;     /* its offset in the best order so far */
  const void *data; /* while requests are recorded */
  int32_t open;     /* of element k: which block is the k-th of those in use */
} rg_slot;

enum { RG_MOST_LENT = 64 };

/* A part of a layout's memory that a kernel works in while its step runs. */
typedef struct rg_lent {
  int64_t offset;
  int64_t bytes;
} rg_lent;

typedef struct rg_slots {
  rg_slot *at;
  int32_t n;
  int32_t room;
  int32_t n_open; /* blocks in use: at[0 .. n_open - 1].open */
  int32_t now;
  int32_t end;   /* when what is never given back is */
  int32_t next;  /* of the requests that come */
  int64_t total; /* bytes */
  int64_t live;  /* the largest sum of blocks that live at one time: no layout is smaller */
  char *base;    /* memory of total bytes; NULL: none yet */
  int64_t most;  /* that total may grow to; 0: it may not */
  bool strays;   /* while it was obeyed something was given back at another time than noted */
  bool lends;    /* (lend.c) `open` holds what lives at lent_at, and next counts what began */
  int32_t lent_at;
  int32_t n_lent;
  rg_lent lent[RG_MOST_LENT];
  bool failed;    /* there are no offsets: too many notes, or requests came that were not noted */
  bool no_memory; /* for notes */
} rg_slots;

/* A block was asked for, and given back. */
void rg_slots_took(rg_slots *s, const void *data, int64_t bytes);
void rg_slots_gave(rg_slots *s, const void *data);

/* Offsets: of what was given back, and of what was not where that spares over a twentieth; else it
** has blocks of its own, which go back one by one.  RG_ENOMEM, also where there was none for notes;
** where there were too many of them there are no offsets. */
rg_status rg_slots_lay_out(rg_slots *s) RG_CHECK;

/* The place of the next request; NULL: it has none. */
void *rg_slots_place(rg_slots *s, int64_t bytes);

/* Is a block one of the layout's?  It is in use no more then. */
bool rg_slots_return(rg_slots *s, const void *data);

void rg_slots_end(rg_slots *s);

/*
** Memory that no block needs at a time, for as long as one step runs (lend.c).  The layout's total
** may have grown behind it.
**
** at  a time of the layout; steps ask in their order, or begin again
** returns  NULL: there is none
*/
void *rg_slots_lend(rg_slots *s, int32_t at, int64_t bytes);

/* Was the block lent?  It is given back then. */
bool rg_slots_repay(rg_slots *s, const void *data);

/* -- Of arenas (alloc.c) -------------------------------------------------------------------- */

/* Note what the arena is asked for, NULL: no more.  The notes are the caller's. */
void rg_arena_note(rg_arena *arena, rg_slots *notes);

/* Obey a layout, which is the arena's from here on: what it refers to is taken. */
rg_status rg_arena_obey(rg_arena *arena, rg_slots *layout) RG_CHECK;

/* The most that lives at one time, by the layout that the arena obeys; 0: it obeys none. */
int64_t rg_arena_live(const rg_arena *arena);

#endif
