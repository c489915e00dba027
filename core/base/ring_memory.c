/* SPDX-License-Identifier: MIT */
/*
** The memory of a thread's ring of events: chunks, and which of them are kept.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/ring_parts.h"

_Thread_local ring *rg_ring_own;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static _Atomic int32_t n_threads;

/* -- Taking and giving back ----------------------------------------------------------------- */

/* Its pages are asked for together: one by one, as events come to them, they are a part of what an
** event costs. */
static chunk *chunk_new(void)
{
  char *memory = rg_host_alloc(sizeof(chunk) + LINE);
  chunk *c;

  if (memory == NULL) {
    return NULL;
  }
#ifdef MADV_POPULATE_WRITE
  uintptr_t first = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
  uintptr_t behind = ((uintptr_t)memory + sizeof(chunk)) / PAGE * PAGE;

  (void)madvise((void *)first, behind - first, MADV_POPULATE_WRITE); /* else as they are touched */
#endif
  c = (void *)(((uintptr_t)memory + LINE - 1) / LINE * LINE);
  c->memory = memory;
  return c;
}

/* One outside a slab is kept too where nothing else is spare: in a ring of few chunks the one that
** goes is the one that comes, in the caches still, and its pages need not be asked for again. */
static void chunk_free(ring *r, chunk *c)
{
  for (int64_t i = 0; c->marked && i < c->n; i++) {
    if (is_marked(&c->entries[i])) {
      rg_event_release(c->entries[i].from);
      rg_event_release(c->entries[i].to);
    }
  }
  for (int32_t i = 0; i < READERS; i++) {
    if (r->readers[i].at == c) {
      r->readers[i].at = NULL;
    }
  }
  r->bytes -= (int64_t)sizeof(*c);
  if (c->memory == NULL || r->spare == NULL) {
    c->next = r->spare;
    r->spare = c;
    r->spare_bytes += (int64_t)sizeof(*c);
    return;
  }
  rg_host_free(c->memory);
}

bool rg_ring_slab(ring *r, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
  int64_t taken = bytes + HUGE_PAGE;
  char *memory = rg_alloc_injected() ? MAP_FAILED
                                     : mmap(NULL, (size_t)taken, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (memory == MAP_FAILED) {
    return false;
  }
  int64_t skip = -(int64_t)(uintptr_t)memory & (HUGE_PAGE - 1);
  char *first = memory + skip;

  if (skip > 0) {
    (void)munmap(memory, (size_t)skip);
  }
  if (skip < HUGE_PAGE) {
    (void)munmap(first + bytes, (size_t)(HUGE_PAGE - skip));
  }
  (void)madvise(first, (size_t)bytes, MADV_HUGEPAGE); /* or in small ones */
  if (madvise(first, (size_t)bytes, MADV_POPULATE_WRITE) != 0) {
    (void)munmap(first, (size_t)bytes);
    return false;
  }
  slab *s = (void *)first;

  *s = (slab){ .next = r->slabs, .bytes = bytes };
  r->slabs = s;
  for (int64_t at = LINE; at + (int64_t)sizeof(chunk) <= bytes; at += (int64_t)sizeof(chunk)) {
    chunk *c = (void *)(first + at);

    c->memory = NULL;
    c->next = r->spare;
    r->spare = c;
    r->spare_bytes += (int64_t)sizeof(*c);
  }
  return true;
#else
  (void)r;
  (void)bytes;
  return false;
#endif
}

void rg_ring_forget(ring *r)
{
  while (r->first != NULL) {
    chunk *next = r->first->next;

    chunk_free(r, r->first);
    r->first = next;
  }
  while (r->spare != NULL) {
    chunk *next = r->spare->next;

    rg_host_free(r->spare->memory); /* of one in a slab there is none */
    r->spare = next;
  }
  while (r->slabs != NULL) {
    slab *s = r->slabs;

    r->slabs = s->next;
    (void)munmap(s, (size_t)s->bytes);
  }
  r->last = NULL;
  r->looked_at = r->spare_bytes = 0;
  for (int32_t i = 0; i < RG_DEVICES; i++) {
    rg_event_release(r->origin[i]);
    r->origin[i] = NULL;
  }
}

static void thread_ends(void *at)
{
  rg_ring_forget(at);
  rg_host_free(at);
}

static void make_key(void)
{
  rg_ring_find_counter();
  (void)pthread_key_create(&key, thread_ends);
}

ring *rg_ring_of_thread(void)
{
  if (rg_ring_own == NULL) {
    rg_ring_own = rg_host_zeroed(sizeof(*rg_ring_own));
    if (rg_ring_own != NULL) {
      rg_ring_own->thread = atomic_fetch_add(&n_threads, 1) + 1;
      (void)pthread_once(&once, make_key);
      (void)pthread_setspecific(key, rg_ring_own);
    }
  }
  return rg_ring_own;
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

static void drop_first(ring *r)
{
  chunk *next = r->first->next;

  chunk_free(r, r->first);
  r->first = next;
  next->before = NULL;
}

/* Those in the middle, which lie between the first events of one reader and the last of another. */
static void drop_middle(ring *r)
{
  chunk **link = &r->first->next;

  while (*link != NULL && *link != r->last) {
    chunk *c = *link;

    if (is_needed(r, c)) {
      link = &c->next;
    } else {
      *link = c->next;
      c->next->before = c->before;
      chunk_free(r, c);
    }
  }
}

static bool is_at_limit(const ring *r)
{
  return r->spare == NULL && r->bytes + (int64_t)sizeof(chunk) > LIMIT_BYTES;
}

/*
** A ring may have two thousand chunks, and one comes with every 256th event: to look at all of them
** each time takes longer than all else that is done for an event.  The oldest go first, one look a
** chunk; the middle is looked at when the ring has become half as large again.
*/
static void drop_chunks(ring *r)
{
  while (r->first != NULL && r->first != r->last && (is_at_limit(r) || !is_needed(r, r->first))) {
    drop_first(r);
  }
  if (r->first != NULL && r->first != r->last && r->bytes > r->looked_at + r->looked_at / 2) {
    drop_middle(r);
    r->looked_at = rg_max_i64(r->bytes, 4 * (int64_t)sizeof(chunk));
  }
}

/* A ring that has become long grows by huge pages. */
static chunk *take_chunk(ring *r)
{
  if (r->spare == NULL &&
      (r->bytes < HUGE_PAGE || r->bytes + HUGE_PAGE > LIMIT_BYTES || !rg_ring_slab(r, HUGE_PAGE))) {
    return chunk_new();
  }
  chunk *c = r->spare;

  r->spare = c->next;
  r->spare_bytes -= (int64_t)sizeof(*c);
  return c;
}

entry *rg_ring_append_chunk(ring *r)
{
  drop_chunks(r);
  chunk *c = take_chunk(r);

  if (c == NULL) {
    return NULL;
  }
  c->next = NULL;
  c->before = r->last;
  c->base = r->n;
  c->n = 1;
  c->marked = false;
  r->bytes += (int64_t)sizeof(*c);
  *(r->last != NULL ? &r->last->next : &r->first) = c;
  r->last = c;
  return c->entries;
}

entry *rg_ring_entry_at(const ring *r, int64_t serial)
{
  chunk *c = r->last;

  if (serial < 0) {
    return NULL;
  }
  while (c != NULL && serial < c->base) {
    c = c->before;
  }
  return c != NULL && serial < c->base + c->n ? &c->entries[serial - c->base] : NULL;
}
