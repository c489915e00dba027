/* SPDX-License-Identifier: MIT */
/*
** The ring of events of a thread, and its readers.
**
** Events lie in chunks, the oldest first.  A chunk goes when no reader needs it any more, or when
** the ring would pass its limit; what an event is told behind its beginning then finds nothing.
**
** On a device the beginning and end of an event are device events, queried only when it is read:
** nothing waits while it is recorded.  Each device has an origin where a reader wants one axis, a
** mark set while it had nothing to do, beside a reading of the host's clock.
*/
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"

enum { CHUNK = 256, READERS = 24, LIMIT_BYTES = 64 << 20 };

typedef struct entry {
  rg_happening e;
  rg_event *from; /* NULL on the CPU, and where it could not be had */
  rg_event *to;
} entry;

typedef struct chunk {
  struct chunk *next;
  int64_t base; /* serial of the first */
  int64_t n;
  entry entries[CHUNK];
} chunk;

typedef struct reader {
  bool is_open;
  bool is_on;
  int32_t kinds;
  int32_t how;
  int64_t capacity;
  int64_t start;   /* serial */
  int64_t stop;    /* behind the last it may have heard; INT64_MAX while it is on */
  int64_t full_at; /* behind the last of the first `capacity` */
  rg_reader_facts facts;
} reader;

typedef struct ring {
  chunk *first;
  chunk *last;
  int64_t bytes;
  int64_t n; /* events so far */
  int32_t thread;
  bool busy;         /* what it does itself is no event */
  int32_t n_readers; /* one more than the number of the last that is on */
  reader readers[READERS];
  rg_event *origin[RG_DEVICES];
  int64_t origin_ns[RG_DEVICES];
} ring;

_Thread_local uint32_t rg_ring_on;
_Thread_local rg_place rg_place_now = { -1, NULL, NULL, -1 };
_Thread_local int64_t rg_ring_last = -1;
static _Thread_local ring *own;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic int32_t n_threads;

/* -- Memory -------------------------------------------------------------------------------- */

static void chunk_free(ring *r, chunk *c)
{
  for (int64_t i = 0; i < c->n; i++) {
    if (c->entries[i].from != NULL || c->entries[i].to != NULL) {
      rg_event_release(c->entries[i].from);
      rg_event_release(c->entries[i].to);
    }
  }
  rg_host_free(c);
  r->bytes -= (int64_t)sizeof(*c);
}

static void forget(ring *r)
{
  while (r->first != NULL) {
    chunk *next = r->first->next;

    chunk_free(r, r->first);
    r->first = next;
  }
  r->last = NULL;
  for (int32_t i = 0; i < RG_DEVICES; i++) {
    rg_event_release(r->origin[i]);
    r->origin[i] = NULL;
  }
}

static void thread_ends(void *at)
{
  forget(at);
  rg_host_free(at);
}

static void make_key(void)
{
  (void)pthread_key_create(&key, thread_ends);
}

static ring *ring_of_thread(void)
{
  if (own == NULL) {
    own = rg_host_zeroed(sizeof(*own));
    if (own != NULL) {
      own->thread = atomic_fetch_add(&n_threads, 1) + 1;
      (void)pthread_once(&once, make_key);
      (void)pthread_setspecific(key, own);
    }
  }
  return own;
}

/* -- Which events are kept ------------------------------------------------------------------ */

static bool reader_needs(const ring *r, const reader *of, const chunk *c)
{
  int64_t end = c->base + c->n;
  int64_t last = rg_min_i64(of->stop, r->n);

  if (!of->is_open || end <= of->start || c->base >= of->stop) {
    return false;
  }
  return (of->how & RG_READ_FIRST) != 0 ? c->base < of->full_at : end > last - of->capacity;
}

static bool is_needed(const ring *r, const chunk *c)
{
  for (int32_t i = 0; i < READERS; i++) {
    if (reader_needs(r, &r->readers[i], c)) {
      return true;
    }
  }
  return false;
}

static void drop_chunks(ring *r)
{
  chunk **link = &r->first;

  while (*link != NULL && *link != r->last) {
    chunk *c = *link;
    bool full = r->bytes + (int64_t)sizeof(*c) > LIMIT_BYTES;

    if (!full && is_needed(r, c)) {
      link = &c->next;
    } else {
      *link = c->next;
      chunk_free(r, c);
    }
  }
}

static entry *append(ring *r)
{
  chunk *c = r->last;

  if (c == NULL || c->n == CHUNK || c->base + c->n != r->n) {
    drop_chunks(r);
    c = rg_host_alloc(sizeof(*c));
    if (c == NULL) {
      return NULL;
    }
    c->next = NULL;
    c->base = r->n;
    c->n = 0;
    r->bytes += (int64_t)sizeof(*c);
    *(r->last != NULL ? &r->last->next : &r->first) = c;
    r->last = c;
  }
  return &c->entries[c->n++];
}

static entry *entry_at(const ring *r, int64_t serial)
{
  chunk *c = r->last;

  if (serial < 0 || c == NULL) {
    return NULL;
  }
  if (serial < c->base) {
    for (c = r->first; c != NULL && serial >= c->base + c->n; c = c->next) {
    }
  }
  return c != NULL && serial >= c->base && serial < c->base + c->n ? &c->entries[serial - c->base]
                                                                   : NULL;
}

/* -- Marks ---------------------------------------------------------------------------------- */

/* A mark that is the device's, set now; NULL where there is none: its time is not known then. */
static rg_event *mark(int32_t device)
{
  rg_event *made = NULL;

  if (rg_event_new(device, &made) != RG_OK || rg_event_set(made) != RG_OK) {
    rg_event_release(made);
    return NULL;
  }
  return made;
}

static rg_status set_origin(ring *r, int32_t device)
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

/* Does an open reader want an axis? */
static bool wants_axis(const ring *r)
{
  for (int32_t i = 0; i < READERS; i++) {
    if (r->readers[i].is_open && (r->readers[i].how & RG_READ_AXIS) != 0) {
      return true;
    }
  }
  return false;
}

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

/* Field by field: a literal of this size becomes `rep stos` first, a twentieth of what an event
** costs (gcc 12). */
static void fill(entry *x, ring *r, int32_t kind, int32_t device, const char *name)
{
  rg_happening *e = &x->e;

  e->name = name;
  e->path = "";
  e->module = rg_place_now.module;
  e->line = rg_place_now.line;
  e->serial = r->n++;
  e->parent = rg_place_now.parent;
  e->origin = rg_place_now.origin;
  e->end_ns = -1;
  e->from_ns = e->to_ns = 0;
  e->device_ns = NAN;
  e->flops = e->bytes = 0;
  e->live_bytes = e->block = 0;
  e->kind = kind;
  e->device = device;
  e->stream = rg_stream_now(device);
  e->thread = r->thread;
  e->shapes = e->step = -1;
  e->n_threads = 0;
  x->from = x->to = NULL;
}

int64_t rg_ring_begin(int32_t kind, int32_t device, const char *name)
{
  ring *r = own;
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
  bool marked = device != RG_CPU_DEVICE && kind != RG_EVENT_ALLOC && kind != RG_EVENT_FREE &&
                kind != RG_EVENT_WAIT;

  fill(x, r, kind, device, name);
  x->e.readers = who;
  if (marked) {
    r->busy = true;
    if (r->origin[device] == NULL && wants_axis(r)) { /* it was opened since */
      rg_status known = set_origin(r, device);

      (void)known; /* then the event has no place on the axis */
    }
    x->from = mark(device);
    r->busy = false;
  }
  x->e.begin_ns = rg_clock_ns();
  return x->e.serial;
}

rg_happening *rg_ring_end(int64_t serial)
{
  ring *r = own;
  entry *x = r != NULL ? entry_at(r, serial) : NULL;

  if (x == NULL) {
    return NULL;
  }
  if (x->from != NULL) {
    x->to = mark(x->e.device);
  }
  x->e.end_ns = rg_clock_ns();
  if (rg_memory_of(x->e.device) != NULL) {
    x->e.live_bytes = rg_memory_of(x->e.device)->live_bytes;
  }
  return &x->e;
}

void rg_ring_moment(int32_t kind, int32_t device, const char *name, int64_t bytes,
                    const void *block)
{
  int64_t serial = rg_ring_begin(kind, device, name);
  rg_happening *e = serial >= 0 ? rg_ring_end(serial) : NULL;

  if (e != NULL) {
    e->bytes = (double)bytes;
    e->block = (int64_t)(uintptr_t)block;
  }
}

void rg_ring_graph(int64_t n)
{
  for (int32_t i = 0; own != NULL && i < READERS; i++) {
    if (own->readers[i].is_on && (own->readers[i].kinds & (1 << RG_EVENT_STEP)) != 0) {
      own->readers[i].facts.n_graphs += n;
    }
  }
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

static reader *reader_at(int32_t number)
{
  bool there = own != NULL && number >= 0 && number < READERS && own->readers[number].is_open;

  return there ? &own->readers[number] : NULL;
}

static rg_status set_origins(ring *r)
{
  rg_status status = RG_OK;

  r->busy = true;
  for (int32_t i = 1; i < RG_DEVICES && status == RG_OK; i++) {
    if (rg_driver_of(i) != NULL) {
      status = set_origin(r, i);
    }
  }
  r->busy = false;
  return status;
}

rg_status rg_reader_open(int32_t kinds, int32_t how, int64_t capacity, int32_t *out)
{
  ring *r = ring_of_thread();
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
    return rg_fail(RG_EARG, "ring: it has %d readers already", READERS);
  }
  if ((how & RG_READ_AXIS) != 0 && !wants_axis(r)) {
    RG_TRY(set_origins(r));
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

void rg_reader_hear(int32_t number, int32_t on)
{
  reader *of = reader_at(number);

  if (of != NULL) {
    of->is_on = on != 0;
    of->stop = on != 0 ? INT64_MAX : own->n;
    refresh(own);
  }
}

void rg_reader_close(int32_t number)
{
  reader *of = reader_at(number);
  bool read = false;

  if (of == NULL) {
    return;
  }
  *of = (reader){ 0 };
  refresh(own);
  for (int32_t i = 0; i < READERS; i++) {
    read = read || own->readers[i].is_open;
  }
  if (!read) {
    forget(own);
  }
}

rg_status rg_reader_facts_of(int32_t number, rg_reader_facts *out)
{
  const reader *of = reader_at(number);
  int64_t found = 0;

  if (of == NULL || out == NULL) {
    return rg_fail(RG_EARG, "ring: there is no reader %d", number);
  }
  for (const chunk *c = own->first; c != NULL; c = c->next) {
    for (int64_t i = 0; i < c->n; i++) {
      const rg_happening *e = &c->entries[i].e;

      found += e->serial >= of->start && (e->readers & (1u << number)) != 0;
    }
  }
  *out = of->facts;
  out->n_dropped = of->facts.n_seen - found;
  return RG_OK;
}

/* Fill what a device knows; waits for it. */
static rg_status read_marks(const ring *r, const reader *of, const entry *x, rg_happening *out)
{
  const rg_event *origin = r->origin[x->e.device];
  double from;
  double to;

  out->from_ns = out->to_ns = NAN;
  if (x->from == NULL || x->to == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_event_between(x->from, x->to, &out->device_ns));
  if ((of->how & RG_READ_AXIS) != 0 && origin != NULL) {
    RG_TRY(rg_event_between(origin, x->from, &from));
    RG_TRY(rg_event_between(origin, x->to, &to));
    out->from_ns = (double)r->origin_ns[x->e.device] + from;
    out->to_ns = (double)r->origin_ns[x->e.device] + to;
  }
  return RG_OK;
}

rg_status rg_reader_next(int32_t number, int64_t *at, rg_happening *out)
{
  const reader *of = reader_at(number);
  int64_t from;

  if (of == NULL || at == NULL || out == NULL) {
    return rg_fail(RG_EARG, "ring: there is no reader %d", number);
  }
  from = rg_max_i64(*at, of->start);
  for (const chunk *c = own->first; c != NULL; c = c->next) {
    for (int64_t i = rg_max_i64(from - c->base, 0); i < c->n; i++) {
      const entry *x = &c->entries[i];

      if ((x->e.readers & (1u << number)) != 0) {
        *at = x->e.serial + 1;
        *out = x->e;
        out->from_ns = (double)x->e.begin_ns;
        out->to_ns = (double)x->e.end_ns;
        if (x->e.device == RG_CPU_DEVICE || x->e.device >= RG_DEVICES) {
          return RG_OK;
        }
        own->busy = true; /* its own waits are nobody's events */
        rg_status status = read_marks(own, of, x, out);
        own->busy = false;
        return status;
      }
    }
  }
  *at = own->n;
  out->name = NULL;
  return RG_OK;
}

/* -- Ranges ---------------------------------------------------------------------------------- */

int64_t rg_range_begin(const char *name, int32_t module, rg_place *before)
{
  const char *kept = rg_text_keep(name);
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

void rg_range_end(int64_t range, const rg_place *before)
{
  rg_place_now = *before;
  if (range >= 0) {
    (void)rg_ring_end(range);
  }
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
