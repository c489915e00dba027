/* SPDX-License-Identifier: MIT */
/*
** What the files of the ring share: its parts, and what they do with them.
*/
#ifndef RG_RING_PARTS_H
#define RG_RING_PARTS_H

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/base.h"

enum { CHUNK = 256, READERS = 24, LIMIT_BYTES = 64 << 20, LINE = 64 };
enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

typedef rg_noted entry;

_Static_assert(sizeof(entry) == 2 * LINE && sizeof(entry) == RG_EVENT_BYTES,
               "an event is two cache lines");

typedef struct chunk {
  struct chunk *next;
  struct chunk *before; /* what ends mostly began not long ago */
  void *memory;         /* that it lies in; NULL: in a slab */
  int64_t base;         /* serial of the first */
  int64_t n;
  bool marked; /* some event has marks of a device, to be released with it */
  _Alignas(LINE) entry entries[CHUNK];
} chunk;

/* Memory of chunks taken together, in huge pages where there are any; it lies at its beginning. */
typedef struct slab {
  struct slab *next;
  int64_t bytes;
} slab;

/* What each event looks at comes first. */
typedef struct reader {
  int32_t kinds;
  int32_t how;
  int64_t capacity;
  int64_t full_at; /* behind the last of the first `capacity` */
  rg_reader_facts facts;
  bool is_on;
  bool is_open;
  int64_t start;   /* serial */
  int64_t stop;    /* behind the last it may have heard; INT64_MAX while it is on */
  const chunk *at; /* where it read last; NULL: from the first on */
} reader;

/* A moment by the counter and by the host's clock. */
typedef struct moment {
  int64_t tick;
  int64_t ns;
} moment;

typedef struct ring {
  chunk *first;
  chunk *last;
  chunk *spare; /* for events to come */
  slab *slabs;
  int64_t spare_bytes;
  int64_t bytes;
  int64_t looked_at; /* how many they were when all chunks were looked at */
  int64_t n;         /* events so far */
  int32_t thread;
  bool busy;         /* what it does itself is no event */
  int32_t n_readers; /* one more than the number of the last that is on */
  reader readers[READERS];
  moment zero; /* when the first of the readers was opened */
  moment late; /* behind the events that were read */
  rg_event *origin[RG_DEVICES];
  int64_t origin_ns[RG_DEVICES];
} ring;

/* The ring of this thread; NULL while nobody has read it. */
extern _Thread_local ring *rg_ring_own;

/* Is the time read by one instruction?  Found out with the first ring. */
extern bool rg_ring_has_counter;
void rg_ring_find_counter(void);

static inline int64_t now(void)
{
#if defined(__x86_64__)
  if (rg_ring_has_counter) {
    return (int64_t)__rdtsc();
  }
#endif
  return rg_clock_ns();
}

static bool is_marked(const entry *x)
{
  return x->kind != RG_EVENT_ALLOC && x->kind != RG_EVENT_FREE && x->from != NULL;
}

/* -- Memory (ring_memory.c) ----------------------------------------------------------------- */

/* The ring of this thread, a new one at first; NULL: no memory. */
ring *rg_ring_of_thread(void);

/* Room for the next event in a chunk of its own, behind those that are kept; NULL: no memory. */
entry *rg_ring_append_chunk(ring *r);

/* An event that is there still; NULL. */
entry *rg_ring_entry_at(const ring *r, int64_t serial);

/* Chunks for so many bytes, whole huge pages, whose pages are there; false: nothing was taken. */
bool rg_ring_slab(ring *r, int64_t bytes);

/* Release everything that is kept. */
void rg_ring_forget(ring *r);

/* -- Marks (ring_read.c) -------------------------------------------------------------------- */

/* A mark that is the device's, set now; NULL where there is none: its time is not known then. */
rg_event *rg_ring_mark(int32_t device);

/* Set the origin of a device, when it has nothing left to do. */
rg_status rg_ring_set_origin(ring *r, int32_t device);

/* Does an open reader want an axis? */
bool rg_ring_wants_axis(const ring *r);

#endif
