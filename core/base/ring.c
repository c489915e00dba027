/* SPDX-License-Identifier: MIT */
/*
** The ring of events of a thread: what is recorded, and ranges.
**
** Events lie in chunks, the oldest first.  A chunk goes when no reader needs it any more, or when
** the ring would pass its limit; what an event is told behind its beginning then finds nothing.
**
** On a device the beginning and end of an event are device events, queried only when it is read:
** nothing waits while it is recorded.  Each device has an origin where a reader wants one axis, a
** mark set while it had nothing to do, beside a reading of the host's clock.
**
** What is looked at computes, and has taken the caches when an event comes: what an event touches
** is cold, and counts more than what it does.  Therefore events are two cache lines, their pages
** are there before them, and the time is read by one instruction where the processor has a counter
** that the system itself takes the time from; it becomes nanoseconds when an event is read.
*/
#include <math.h>

#include "base/ring_parts.h"

_Thread_local uint32_t rg_ring_on;
_Thread_local rg_place rg_place_now = { -1, NULL, NULL, -1 };
_Thread_local int64_t rg_ring_last = -1;
_Thread_local rg_probe *rg_ring_probe;

/* -- Recording ------------------------------------------------------------------------------- */

/* Who hears an event of a kind; counts it for them. */
static uint32_t hearers(ring *r, int32_t kind)
{
  uint32_t who = 0;

  for (int32_t i = 0; i < r->n_readers; i++) {
    reader *of = &r->readers[i];

    if (of->is_on && (of->kinds & (1 << kind)) != 0) {
      of->facts.n_seen++;
      if ((of->how & RG_READ_FIRST) == 0 || of->facts.n_seen <= of->capacity) {
        who |= 1u << i;
      }
      if (of->facts.n_seen == of->capacity) {
        of->full_at = r->n + 1;
      }
    }
  }
  return who;
}

/* Room for the next event, nearly always behind the one before; NULL: no memory. */
static inline entry *append(ring *r)
{
  chunk *c = r->last;

  if (c == NULL || c->n == CHUNK || c->base + c->n != r->n) {
    return rg_ring_append_chunk(r);
  }
  entry *x = &c->entries[c->n++];

  /* The next one comes into the caches while what this one tells of computes.  Behind the last one
  ** of a chunk that is memory of nobody's, which a prefetch may ask for. */
  __builtin_prefetch(x + 1, 1, 2);
  __builtin_prefetch((char *)(x + 1) + LINE, 1, 2);
  return x;
}

/* An event of a device's.  Out of the way of those of the CPU, which come faster. */
static __attribute__((noinline, cold)) void begin_on_device(ring *r, entry *x, int32_t device)
{
  x->stream = rg_stream_now(device);
  if (x->kind == RG_EVENT_ALLOC || x->kind == RG_EVENT_FREE || x->kind == RG_EVENT_WAIT) {
    return;
  }
  r->busy = true;
  if (r->origin[device] == NULL && rg_ring_wants_axis(r)) { /* it was opened since */
    rg_status known = rg_ring_set_origin(r, device);

    (void)known; /* then the event has no place on the axis */
  }
  x->from = rg_ring_mark(device);
  r->last->marked = true;
  r->busy = false;
}

int64_t rg_ring_begin(int32_t kind, int32_t device, const char *name)
{
  ring *r = rg_ring_own;
  entry *x;

  if (r == NULL || r->busy || (rg_ring_on & (1u << kind)) == 0) {
    return -1;
  }
  uint32_t who = hearers(r, kind);

  x = who != 0 ? append(r) : NULL;
  if (x == NULL) {
    r->n++; /* what is not there has a number too */
    return -1;
  }
  int64_t serial = r->n++;

  /* Field by field: a literal of this size becomes `rep stos` first, a twentieth of what an event
  ** costs (gcc 12). */
  x->name = name;
  x->path = "";
  x->module = rg_place_now.module;
  x->line = rg_place_now.line;
  x->parent = rg_place_now.parent;
  x->origin = rg_place_now.origin;
  x->end = -1;
  x->flops = x->bytes = 0;
  x->live_bytes = 0;
  x->from = NULL;
  x->to = NULL;
  x->readers = who;
  x->shapes = x->step = -1;
  x->stream = 0;
  x->n_threads = 0;
  x->kind = (uint8_t)kind;
  x->device = (uint8_t)device;
  if (device != RG_CPU_DEVICE) {
    begin_on_device(r, x, device);
  }
  x->begin = now();
  return serial;
}

rg_noted *rg_ring_end(int64_t serial)
{
  ring *r = rg_ring_own;
  entry *x = r != NULL ? rg_ring_entry_at(r, serial) : NULL;

  if (x == NULL) {
    return NULL;
  }
  if (is_marked(x)) {
    x->to = rg_ring_mark(x->device);
  }
  x->end = now();
  const rg_memory *memory = rg_memory_of(x->device);

  if (memory != NULL) {
    x->live_bytes = memory->live_bytes;
  }
  return x;
}

void rg_ring_moment(int32_t kind, int32_t device, const char *name, int64_t bytes,
                    const void *block)
{
  int64_t serial = rg_ring_begin(kind, device, name);
  rg_noted *e = serial >= 0 ? rg_ring_end(serial) : NULL;

  if (e != NULL) {
    e->bytes = (double)bytes;
    e->block = (int64_t)(uintptr_t)block;
  }
}

int64_t rg_ring_serial(void)
{
  return rg_ring_own != NULL ? rg_ring_own->n : 0;
}

void rg_ring_graph(int64_t n)
{
  for (int32_t i = 0; rg_ring_own != NULL && i < READERS; i++) {
    if (rg_ring_own->readers[i].is_on &&
        (rg_ring_own->readers[i].kinds & (1 << RG_EVENT_STEP)) != 0) {
      rg_ring_own->readers[i].facts.n_graphs += n;
    }
  }
}

/* -- Ranges ---------------------------------------------------------------------------------- */

const char *rg_range_name(const char *name)
{
  const char *kept = name != NULL ? rg_text_keep(name) : NULL;

  /* The time of what has no place among the names is told under one name, not left out. */
  return name == NULL || kept != NULL ? kept : "(too many names)";
}

/* kept: NULL where there is no name. */
static int64_t begin_named(const char *kept, int32_t module, rg_place *before)
{
  int64_t serial = -1;

  *before = rg_place_now;
  if (module != 0) {
    rg_place_now.module = kept;
  }
  if (kept != NULL) {
    serial = rg_ring_begin(RG_EVENT_RANGE, RG_CPU_DEVICE, kept);
  }
  if (serial >= 0) {
    rg_place_now.parent = serial;
  }
  return serial;
}

int64_t rg_range_begin(const char *name, int32_t module, rg_place *before)
{
  return begin_named(rg_range_name(name), module, before);
}

void rg_range_enter(rg_range *range)
{
  range->serial = begin_named(range->name, range->module, &range->before);
}

void rg_range_end(int64_t range, const rg_place *before)
{
  rg_place_now = *before;
  if (range >= 0) {
    (void)rg_ring_end(range);
  }
}

void rg_range_leave(const rg_range *range)
{
  rg_range_end(range->serial, &range->before);
}

void rg_line_set(const char *line)
{
  rg_place_now.line = line != NULL ? rg_text_keep(line) : NULL;
}

void rg_place_swap(rg_place *place)
{
  rg_place before = rg_place_now;

  rg_place_now = *place;
  *place = before;
}
