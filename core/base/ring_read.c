/* SPDX-License-Identifier: MIT */
/*
** Readers of the ring of events, and the time of what they read: the host's, and that of devices.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/ring_parts.h"

bool rg_ring_has_counter;

/* -- Time ---------------------------------------------------------------------------------- */

/*
** A counter of the processor is taken where it ticks at one rate whatever the processor does, and
** where the system takes the time from it: then it found the counters of all processors to agree.
** The clock is CLOCK_MONOTONIC_RAW, which is the counter times a constant there.
*/
static bool is_counter_good(void)
{
#if defined(__x86_64__)
  uint32_t a;
  uint32_t b;
  uint32_t c;
  uint32_t d;
  char source[8] = "";
  FILE *file;

  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & 1u << 8) == 0) {
    return false;
  }
  file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (file == NULL) {
    return false;
  }
  char *line = fgets(source, sizeof(source), file);

  (void)fclose(file);
  return line != NULL && strcmp(source, "tsc\n") == 0;
#else
  return false;
#endif
}

void rg_ring_find_counter(void)
{
  rg_ring_has_counter = is_counter_good();
}

/* The best of some: a reading may be interrupted. */
static moment moment_now(void)
{
  moment best = { 0 };
  int64_t least = INT64_MAX;

  for (int32_t i = 0; i < 5; i++) {
    int64_t before = now();
    int64_t ns = rg_clock_ns();
    int64_t took = now() - before;

    if (took < least) {
      least = took;
      best = (moment){ .tick = before + took / 2, .ns = ns };
    }
  }
  return best;
}

/* Nanoseconds on the host's clock. */
static int64_t ns_at(const ring *r, int64_t tick)
{
  double ticks = (double)(r->late.tick - r->zero.tick);

  if (!rg_ring_has_counter || ticks <= 0) {
    return rg_ring_has_counter ? r->zero.ns : tick;
  }
  double rate = (double)(r->late.ns - r->zero.ns) / ticks;

  return r->zero.ns + llrint((double)(tick - r->zero.tick) * rate);
}

/* -- Marks ---------------------------------------------------------------------------------- */

rg_event *rg_ring_mark(int32_t device)
{
  rg_event *made = NULL;

  if (rg_event_new(device, &made) != RG_OK || rg_event_set(made) != RG_OK) {
    rg_event_release(made);
    return NULL;
  }
  return made;
}

rg_status rg_ring_set_origin(ring *r, int32_t device)
{
  rg_event *origin = NULL;
  rg_status status = rg_device_wait(device);

  if (status == RG_OK) {
    status = rg_event_new(device, &origin);
  }
  if (status == RG_OK) {
    status = rg_event_set(origin);
  }
  if (status == RG_OK) {
    status = rg_event_wait(origin);
  }
  if (status != RG_OK) {
    rg_event_release(origin);
    return status;
  }
  rg_event_release(r->origin[device]);
  r->origin[device] = origin;
  r->origin_ns[device] = rg_clock_ns();
  return RG_OK;
}

bool rg_ring_wants_axis(const ring *r)
{
  for (int32_t i = 0; i < READERS; i++) {
    if (r->readers[i].is_open && (r->readers[i].how & RG_READ_AXIS) != 0) {
      return true;
    }
  }
  return false;
}

/* -- Readers --------------------------------------------------------------------------------- */

static void refresh(ring *r)
{
  uint32_t kinds = 0;

  r->n_readers = 0;
  for (int32_t i = 0; i < READERS; i++) {
    if (r->readers[i].is_on) {
      kinds |= (uint32_t)r->readers[i].kinds;
      r->n_readers = i + 1;
    }
  }
  rg_ring_on = (rg_ring_on & ~(uint32_t)RG_RING_ALL_KINDS) | kinds;
}

static bool is_read(const ring *r)
{
  for (int32_t i = 0; i < READERS; i++) {
    if (r->readers[i].is_open) {
      return true;
    }
  }
  return false;
}

static reader *reader_at(int32_t number)
{
  bool there = rg_ring_own != NULL && number >= 0 && number < READERS &&
               rg_ring_own->readers[number].is_open;

  return there ? &rg_ring_own->readers[number] : NULL;
}

static rg_status set_origins(ring *r)
{
  rg_status status = RG_OK;

  r->busy = true;
  for (int32_t i = 1; i < RG_DEVICES && status == RG_OK; i++) {
    if (rg_driver_of(i) != NULL) {
      status = rg_ring_set_origin(r, i);
    }
  }
  r->busy = false;
  return status;
}

rg_status rg_reader_open(int32_t kinds, int32_t how, int64_t capacity, int32_t *out)
{
  ring *r = rg_ring_of_thread();
  int32_t number = 0;

  if (out == NULL || capacity < 1 || capacity > 1 << 24) {
    return rg_fail(RG_EARG, "ring: a capacity of %lld events", (long long)capacity);
  }
  if (kinds < 1 || kinds >= 1 << RG_EVENT_COUNT || (how & ~(RG_READ_FIRST | RG_READ_AXIS)) != 0) {
    return rg_fail(RG_EARG, "ring: there are no kinds %d, read %d", kinds, how);
  }
  if (r == NULL) {
    return rg_fail(RG_ENOMEM, "ring: no memory for its readers");
  }
  while (number < READERS && r->readers[number].is_open) {
    number++;
  }
  if (number == READERS) {
    return rg_fail(RG_EARG,
                   "ring: %d profiles, timelines or traces are under way in this thread, "
                   "as many as there may be within each other",
                   READERS);
  }
  if ((how & RG_READ_AXIS) != 0 && !rg_ring_wants_axis(r)) {
    RG_TRY(set_origins(r));
  }
  if (!is_read(r)) {
    r->zero = r->late = moment_now();
  }
  r->readers[number] = (reader){ .is_open = true,
                                 .kinds = kinds,
                                 .how = how,
                                 .capacity = capacity,
                                 .start = r->n,
                                 .full_at = INT64_MAX,
                                 .facts = { .begin_ns = rg_clock_ns() } };
  rg_reader_hear(number, 1);
  *out = number;
  return RG_OK;
}

void rg_reader_reserve(int32_t number, int64_t n)
{
  const reader *of = reader_at(number);

  if (of == NULL || n < 1) {
    return;
  }
  int64_t chunks = (rg_min_i64(n, of->capacity) + CHUNK - 1) / CHUNK;
  int64_t bytes = (chunks * (int64_t)sizeof(chunk) + LINE + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

  if (rg_ring_own->bytes + rg_ring_own->spare_bytes + bytes <= LIMIT_BYTES) {
    (void)rg_ring_slab(rg_ring_own, bytes); /* else it comes when it is needed */
  }
}

void rg_reader_hear(int32_t number, int32_t on)
{
  reader *of = reader_at(number);

  if (of != NULL) {
    of->is_on = on != 0;
    of->stop = on != 0 ? INT64_MAX : rg_ring_own->n;
    refresh(rg_ring_own);
  }
}

void rg_reader_close(int32_t number)
{
  reader *of = reader_at(number);

  if (of == NULL) {
    return;
  }
  *of = (reader){ 0 };
  refresh(rg_ring_own);
  if (!is_read(rg_ring_own)) {
    rg_ring_forget(rg_ring_own);
  }
}

rg_status rg_reader_facts_of(int32_t number, rg_reader_facts *out)
{
  const reader *of = reader_at(number);
  int64_t found = 0;

  if (of == NULL || out == NULL) {
    return rg_fail(RG_EARG, "ring: there is no reader %d", number);
  }
  for (const chunk *c = rg_ring_own->first; c != NULL; c = c->next) {
    for (int64_t i = 0; i < c->n; i++) {
      found += c->base + i >= of->start && (c->entries[i].readers & (1u << number)) != 0;
    }
  }
  *out = of->facts;
  out->n_dropped = of->facts.n_seen - found;
  return RG_OK;
}

/* Fill what a device knows; waits for it. */
static rg_status read_marks(const ring *r, const reader *of, const entry *x, rg_happening *out)
{
  const rg_event *origin = r->origin[x->device];
  double from;
  double to;

  out->from_ns = out->to_ns = NAN;
  if (!is_marked(x) || x->to == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_event_between(x->from, x->to, &out->device_ns));
  if ((of->how & RG_READ_AXIS) != 0 && origin != NULL) {
    RG_TRY(rg_event_between(origin, x->from, &from));
    RG_TRY(rg_event_between(origin, x->to, &to));
    out->from_ns = (double)r->origin_ns[x->device] + from;
    out->to_ns = (double)r->origin_ns[x->device] + to;
  }
  return RG_OK;
}

/* An event as readers get it. */
static void tell(ring *r, const entry *x, int64_t serial, rg_happening *out)
{
  bool moment_of = x->kind == RG_EVENT_ALLOC || x->kind == RG_EVENT_FREE;

  if (rg_ring_has_counter && rg_max_i64(x->begin, x->end) > r->late.tick) {
    r->late = moment_now(); /* one for all that are read together, so that they stay in order */
  }
  *out = (rg_happening){ .name = x->name,
                         .path = x->path,
                         .module = x->module,
                         .line = x->line,
                         .serial = serial,
                         .parent = x->parent,
                         .origin = x->origin,
                         .begin_ns = ns_at(r, x->begin),
                         .end_ns = x->end != -1 ? ns_at(r, x->end) : -1,
                         .device_ns = NAN,
                         .flops = x->flops,
                         .bytes = x->bytes,
                         .live_bytes = x->live_bytes,
                         .block = moment_of ? x->block : 0,
                         .kind = x->kind,
                         .device = x->device,
                         .stream = x->stream,
                         .thread = r->thread,
                         .shapes = x->shapes,
                         .step = x->step,
                         .n_threads = x->n_threads,
                         .readers = x->readers };
  out->from_ns = (double)out->begin_ns;
  out->to_ns = (double)out->end_ns;
}

/* The chunk to look for an event from `from` on: where the reader was, unless that is behind it.
** From the first on each time, reading all of them would be quadratic. */
static const chunk *chunk_for(const reader *of, int64_t from)
{
  return of->at != NULL && of->at->base <= from ? of->at : rg_ring_own->first;
}

rg_status rg_reader_next(int32_t number, int64_t *at, rg_happening *out)
{
  reader *of = reader_at(number);
  int64_t from;

  if (of == NULL || at == NULL || out == NULL) {
    return rg_fail(RG_EARG, "ring: there is no reader %d", number);
  }
  from = rg_max_i64(*at, of->start);
  for (const chunk *c = chunk_for(of, from); c != NULL; c = c->next) {
    of->at = c;
    for (int64_t i = rg_max_i64(from - c->base, 0); i < c->n; i++) {
      const entry *x = &c->entries[i];

      if ((x->readers & (1u << number)) != 0) {
        *at = c->base + i + 1;
        tell(rg_ring_own, x, c->base + i, out);
        if (x->device == RG_CPU_DEVICE || x->device >= RG_DEVICES) {
          return RG_OK;
        }
        rg_ring_own->busy = true; /* its own waits are nobody's events */
        rg_status status = read_marks(rg_ring_own, of, x, out);
        rg_ring_own->busy = false;
        return status;
      }
    }
  }
  *at = rg_ring_own->n;
  out->name = NULL;
  return RG_OK;
}
