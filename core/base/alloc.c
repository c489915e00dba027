/* SPDX-License-Identifier: MIT */
/*
** The caching allocator.  Fresh memory is the hidden cost of small machines (2.1 us a 4 KB page,
** docs/why/decisions.md), so blocks go back to lists by size (and come from system.c).
** One lock guards everything; uncontended it costs less than a tensor's bookkeeping.
*/
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/budget.h"

enum {
  GROWS_FROM = 128 << 10, /* smaller layouts have memory of malloc */
  MOST_GROWTH = 6         /* times what it was */
};

static rg_spin lock;
static rg_arena_part pool_parts[RG_DEVICES + 1]
                               [RG_STREAMS]; /* the CPU's and the pinned: of stream 0 */
static rg_arena pool;
static rg_memory memories[RG_DEVICES + 1];
static _Thread_local rg_arena *current;

/* -- Watching ------------------------------------------------------------------- */

/*
** With RIDGE_ALLOC_WATCH, under the address sanitizer, nobody may touch what lies behind the bytes
** that were asked for, up to the size of their class, nor a block while the pool has it.  Only on
** simulated devices, and only where work is done when it is asked for (RG_SIM_ORDER=now): a block
** that is given back may still be read by work that waits.
*/
#define WEAK __attribute__((weak))
extern void __asan_poison_memory_region(void const volatile *at, size_t bytes) WEAK;
extern void __asan_unpoison_memory_region(void const volatile *at, size_t bytes) WEAK;
static bool watched;
static bool poisoned;

__attribute__((constructor)) static void read_environment(void)
{
  watched = getenv("RIDGE_ALLOC_WATCH") != NULL && __asan_poison_memory_region != NULL;
  poisoned = getenv("RIDGE_ALLOC_POISON") != NULL;
}

static void watch(int32_t device, void *data, int64_t bytes, int class)
{
  if (watched && device != RG_CPU_DEVICE) {
    __asan_unpoison_memory_region(data, (size_t)bytes);
    __asan_poison_memory_region((char *)data + bytes, (size_t)(class_bytes(class) - bytes));
  }
}

static void give(int32_t device, void *data, int class)
{
  watch(device, data, class_bytes(class), class);
  rg_system_give(device, data, class_bytes(class));
}

/* -- Poison ---------------------------------------------------------------------- */

/*
** With RIDGE_ALLOC_POISON a block is full of 0xff (NaN; -1) when it is handed out, so that what an
** operation forgot to write is not by chance what an earlier one wrote there.  A plan's blocks are
** filled when the capture gets them, which runs every step; a replay is handed nothing, so there a
** step may meet what an earlier step of the plan left.
*/
static void poison(const rg_block *block)
{
  if (!poisoned || block->bytes == 0) {
    return;
  }
  if (block->device == RG_CPU_DEVICE || block->device == RG_PINNED) {
    memset(block->data, 0xff, (size_t)block->bytes);
  } else {
    rg_driver_of(block->device)->spoil(block->device, block->data, block->bytes);
  }
}

bool rg_alloc_poisons(void)
{
  return poisoned;
}

/* -- Lists ----------------------------------------------------------------------- */

static void *list_take(rg_free_list *l, int class)
{
  void *data = l->n > 0 ? l->blocks[--l->n] : NULL;

  if (l->n > 0) {
    rg_prefetch_block(l->blocks[l->n - 1], class_bytes(class));
  }
  return data;
}

/* Make room for n blocks; false when there is none for even the notes. */
static bool list_reserve(rg_free_list *l, int64_t n)
{
  if (n > l->room) {
    int64_t room = rg_max_i64(8, 2 * n);
    void **blocks = realloc(l->blocks, (size_t)room * sizeof(*blocks));

    if (blocks == NULL) {
      return false;
    }
    l->blocks = blocks;
    l->room = room;
  }
  return true;
}

static void pool_put(int32_t device, int32_t stream, void *data, int class)
{
  rg_free_list *l = &pool_parts[device][stream].lists[class];

  if (list_reserve(l, l->n + 1)) {
    l->blocks[l->n++] = data;
    watch(device, data, 0, class);
  } else {
    memories[device].reserved_bytes -= class_bytes(class);
    give(device, data, class);
  }
}

/* Caller holds the lock. */
static int64_t trim(int32_t device)
{
  int64_t given = 0;

  for (int i = 0; i < RG_STREAMS * N_CLASSES; i++) {
    int c = i % N_CLASSES;
    rg_free_list *l = &pool_parts[device][i / N_CLASSES].lists[c];
    void *data;

    while ((data = list_take(l, c)) != NULL) {
      give(device, data, c);
      given += class_bytes(c);
    }
    free(l->blocks);
    *l = (rg_free_list){ 0 };
  }
  memories[device].reserved_bytes -= given;
  return given;
}

/* -- Blocks ---------------------------------------------------------------------- */

/* The stream whose blocks this thread takes. */
static int32_t stream_of(int32_t device)
{
  return device == RG_CPU_DEVICE ? 0 : rg_stream_now(device);
}

/* From the pool's list, or the system (after giving back what is cached). */
static void *pool_take(int32_t device, int class)
{
  int64_t bytes = class_bytes(class);
  rg_memory *m = &memories[device];
  void *data = list_take(&pool_parts[device][stream_of(device)].lists[class], class);

  if (data != NULL) {
    return data;
  }
  if (device != RG_CPU_DEVICE && m->limit_bytes > 0 && m->reserved_bytes + bytes > m->limit_bytes) {
    (void)trim(device); /* others use the GPU too: what is cached counts */
  }
  data = rg_system_take(device, bytes);
  if (data == NULL && trim(device) > 0) {
    data = rg_system_take(device, bytes);
  }
  if (data != NULL) {
    m->reserved_bytes += bytes;
    m->peak_reserved_bytes = rg_max_i64(m->peak_reserved_bytes, m->reserved_bytes);
  }
  return data;
}

/* What the layout of another arena lends. */
static void *borrow(const rg_arena *arena, int64_t bytes)
{
  rg_arena *from = arena->from;
  rg_memory *m = &memories[RG_CPU_DEVICE];

  if (from == NULL || arena->from_at < 0) {
    return NULL;
  }
  const int64_t before = from->layout.total;
  void *data = rg_slots_lend(&from->layout, arena->from_at, bytes);

  from->bytes += from->layout.total - before;
  m->reserved_bytes += from->layout.total - before;
  m->peak_reserved_bytes = rg_max_i64(m->peak_reserved_bytes, m->reserved_bytes);
  return data;
}

/*
** From the arena's list or the pool.  The note of the block's return is paid for here, because by
** then it must not fail: a plan's steps go on writing to a block that is not in use.
*/
static void *arena_take(rg_arena *arena, int32_t device, int64_t bytes, int *class)
{
  rg_arena_part *own = arena->parts[device];
  rg_free_list *l;
  void *data = device == RG_CPU_DEVICE ? rg_slots_place(&arena->layout, bytes) : NULL;

  data = data == NULL && device == RG_CPU_DEVICE ? borrow(arena, bytes) : data;
  if (data != NULL) {
    return data;
  }
  if (own == NULL) {
    own = arena->parts[device] = rg_host_zeroed(sizeof(*own));
  }
  if (own == NULL) {
    return NULL;
  }
  l = &own->lists[*class];
  data = list_take(l, *class);
  for (int c = *class + 1; data == NULL && arena->scratch && c < N_CLASSES; c++) {
    data = list_take(&own->lists[c], c);
    *class = data != NULL ? c : *class;
  }
  if (data == NULL && list_reserve(l, own->n_own[*class] + 1)) {
    data = pool_take(device, *class);
    if (data != NULL) {
      own->n_own[*class]++;
      arena->bytes += class_bytes(*class);
    }
  }
  return data;
}

/* Whether the request can be had at all; a device is opened when it is asked for first. */
static rg_status check_request(int32_t device, int64_t bytes)
{
  if (device == RG_PINNED && rg_driver_that_pins() == NULL) {
    return rg_fail(RG_EDEVICE, "memory: pinned memory is a GPU's, and none was opened");
  }
  if (device != RG_CPU_DEVICE && device != RG_PINNED) {
    RG_TRY(rg_device_open(device));
  }
  if (bytes < 0 || bytes > ((int64_t)1 << 48)) {
    return rg_fail(RG_ENOMEM, "memory: %.3g GB cannot be had", (double)bytes / 1e9);
  }
  if (rg_alloc_injected()) {
    return rg_fail(RG_ENOMEM, "memory: %lld bytes refused on request", (long long)bytes);
  }
  return rg_budget_take(device, bytes);
}

/* Does a device, or the one that pins memory, still answer? */
static rg_status lost(int32_t device)
{
  const rg_driver *driver = device == RG_PINNED ? rg_driver_that_pins() : rg_driver_of(device);

  return driver != NULL ? driver->lost(device == RG_PINNED ? 1 : device) : RG_OK;
}

static rg_status alloc_from(rg_arena *arena, int32_t device, int64_t bytes, rg_block *out)
{
  rg_memory *m;
  int class;
  void *data;
  int64_t live;
  int64_t limit;
  uint16_t site = 0;

  RG_TRY(check_request(device, bytes));
  m = &memories[device];
  class = class_of(bytes);
  rg_spin_enter(&lock);
  live = m->live_bytes;
  limit = m->limit_bytes;
  if (limit > 0 && live + bytes > limit) {
    rg_spin_leave(&lock);
    return rg_fail(RG_ENOMEM, "memory: %.4g MB more would pass the limit of %.4g MB (%.4g MB live)",
                   (double)bytes / 1048576, (double)limit / 1048576, (double)live / 1048576);
  }
  data = arena == &pool ? pool_take(device, class) : arena_take(arena, device, bytes, &class);
  if (data != NULL) {
    /* a plan's blocks have owners of several sizes */
    watch(device, data, arena == &pool ? bytes : class_bytes(class), class);
    arena->n_used++;
    if (arena->notes != NULL && device == RG_CPU_DEVICE) {
      rg_slots_took(arena->notes, data, bytes);
    }
    m->live_bytes += bytes;
    m->peak_bytes = rg_max_i64(m->peak_bytes, m->live_bytes);
    m->n_blocks++;
    m->n_requests++;
    rg_debt_took(&memories[RG_CPU_DEVICE], bytes);
    if (rg_tag_now != 0) {
      rg_tag_took(device, rg_tag_now, bytes);
    }
    if (rg_sites_on) {
      site = rg_site_took(device, bytes);
    }
  }
  rg_spin_leave(&lock);
  if (data == NULL) {
    RG_TRY(lost(device)); /* that is why, and not its size */
    return rg_fail(RG_ENOMEM, "memory: %s has no %.4g MB left (%.4g MB live)",
                   device == RG_CPU_DEVICE ? "the system" : "the device", (double)bytes / 1048576,
                   (double)live / 1048576);
  }
  *out = (rg_block){ .data = data,
                     .bytes = bytes,
                     .arena = arena,
                     .device = device,
                     .tag = rg_tag_now,
                     .site = site,
                     .size_class = (uint16_t) class };
  if (device != RG_CPU_DEVICE) {
    out->stream = out->writer = (uint8_t)stream_of(device);
    out->seen = out->users = (uint8_t)(1u << out->stream);
  }
  poison(out);
  if ((rg_ring_on & (1u << RG_EVENT_ALLOC)) != 0) {
    rg_ring_moment(RG_EVENT_ALLOC, device, "alloc", bytes, data);
  }
  return RG_OK;
}

rg_status rg_block_alloc(int32_t device, int64_t bytes, rg_block *out)
{
  return alloc_from(current != NULL ? current : &pool, device, bytes, out);
}

rg_status rg_block_alloc_shared(int32_t device, int64_t bytes, rg_block *out)
{
  return alloc_from(&pool, device, bytes, out);
}

/* Caller holds the lock: everything the arena still caches goes to the pool. */
static void arena_empty(rg_arena *arena)
{
  for (int32_t device = 0; device < RG_DEVICES; device++) {
    rg_arena_part *own = arena->parts[device];

    for (int c = 0; own != NULL && c < N_CLASSES; c++) {
      void *data;

      while ((data = list_take(&own->lists[c], c)) != NULL) {
        pool_put(device, 0, data, c);
      }
      free(own->lists[c].blocks);
    }
    rg_host_free(own);
    arena->parts[device] = NULL;
  }
}

/* What other streams and copies under way still do with a block comes before whoever has it next.
** A driver that cannot order them has lost its device. */
static void settle(rg_block *block)
{
  uint32_t others = block->users & ~(1u << block->stream);

  for (int32_t i = 0; block->behind != NULL && i < RG_DEVICES; i++) {
    if (block->behind[i] != NULL) {
      rg_status ended = rg_event_wait(block->behind[i]);

      (void)ended;
      rg_event_release(block->behind[i]);
    }
  }
  rg_host_free(block->behind);
  block->behind = NULL;
  if (others != 0 && block->device != RG_PINNED) {
    (void)rg_driver_of(block->device)->join(block->device, block->stream, others);
  }
}

/* A closed arena of which no block is in use; NULL: none. */
static void arena_end(rg_arena *arena)
{
  if (arena != NULL && arena->layout.base != NULL) {
    rg_spin_enter(&lock);
    memories[RG_CPU_DEVICE].reserved_bytes -= arena->layout.total;
    rg_spin_leave(&lock);
    if (arena->layout.most > 0) {
      rg_system_give_room(arena->layout.base, arena->layout.total, arena->layout.most);
    } else {
      rg_system_give(RG_CPU_DEVICE, arena->layout.base, arena->layout.total);
    }
  }
  if (arena != NULL) {
    rg_slots_end(&arena->layout);
  }
  rg_host_free(arena);
}

void rg_block_free(rg_block *block)
{
  rg_arena *arena = block->arena;
  rg_memory *m = &memories[block->device];
  rg_arena *ended = NULL;
  const int class = block->size_class;

  if (block->data == NULL) {
    return;
  }
  if (block->device != RG_CPU_DEVICE) {
    settle(block);
  }
  rg_spin_enter(&lock);
  m->live_bytes -= block->bytes;
  m->n_blocks--;
  arena->n_used--;
  rg_debt_gave(&memories[RG_CPU_DEVICE], block->bytes);
  if (block->tag != 0) {
    rg_tag_gave(block->device, block->tag, block->bytes);
  }
  if (block->site != 0) {
    rg_site_gave(block->device, block->site, block->bytes);
  }
  if (arena->notes != NULL && block->device == RG_CPU_DEVICE) {
    rg_slots_gave(arena->notes, block->data);
  }
  if (block->device == RG_CPU_DEVICE &&
      (rg_slots_return(&arena->layout, block->data) ||
       (arena->from != NULL && rg_slots_repay(&arena->from->layout, block->data)))) {
    /* it lies in the arena's one block, or in that of another */
  } else if (arena == &pool || arena->closed) {
    pool_put(block->device, block->stream, block->data, class);
  } else {
    rg_free_list *l = &arena->parts[block->device]->lists[class];

    l->blocks[l->n++] = block->data;
  }
  if (arena->closed && arena->n_used == 0) {
    ended = arena;
  }
  rg_spin_leave(&lock);
  arena_end(ended);
  if ((rg_ring_on & (1u << RG_EVENT_FREE)) != 0) {
    rg_ring_moment(RG_EVENT_FREE, block->device, "free", block->bytes, block->data);
  }
  block->data = NULL;
}

/* -- Arenas ---------------------------------------------------------------------- */

void rg_arena_close(rg_arena *arena)
{
  bool ended;

  if (arena == NULL) {
    return;
  }
  for (int32_t device = 1; device < RG_DEVICES && arena->streams > 1; device++) {
    if (arena->parts[device] != NULL) {
      (void)rg_driver_of(device)->join(device, 0, arena->streams & ~1u);
    }
  }
  rg_spin_enter(&lock);
  arena_empty(arena);
  arena->closed = true;
  ended = arena->n_used == 0;
  rg_spin_leave(&lock);
  arena_end(ended ? arena : NULL);
}

rg_arena *rg_arena_swap(rg_arena *arena)
{
  rg_arena *before = current;

  current = arena;
  return before;
}

rg_arena *rg_arena_current(void)
{
  return current;
}

rg_status rg_arena_obey(rg_arena *arena, rg_slots *layout)
{
  rg_memory *m = &memories[RG_CPU_DEVICE];
  char *base;

  if (layout->failed || layout->total == 0) {
    return RG_OK; /* requests get blocks of their own */
  }
  RG_TRY(check_request(RG_CPU_DEVICE, layout->total));
  layout->most = layout->total >= GROWS_FROM ? MOST_GROWTH * layout->total : 0;
  base = layout->most > 0 ? rg_system_take_room(layout->total, layout->most) : NULL;
  layout->most = base != NULL ? layout->most : 0;
  base = base != NULL ? base : rg_system_take(RG_CPU_DEVICE, layout->total);
  if (base == NULL && rg_memory_trim(RG_CPU_DEVICE) > 0) {
    base = rg_system_take(RG_CPU_DEVICE, layout->total);
  }
  if (base == NULL) {
    return rg_fail(RG_ENOMEM, "memory: the system has no %.4g MB left for a plan",
                   (double)layout->total / 1048576);
  }
  rg_spin_enter(&lock);
  m->reserved_bytes += layout->total;
  m->peak_reserved_bytes = rg_max_i64(m->peak_reserved_bytes, m->reserved_bytes);
  arena->bytes += layout->total;
  arena->layout = *layout;
  arena->layout.base = base;
  arena->layout.next = arena->layout.now = 0;
  rg_spin_leave(&lock);
  *layout = (rg_slots){ 0 };
  return RG_OK;
}

/* -- Counters -------------------------------------------------------------------- */

rg_memory *rg_memory_of(int32_t device)
{
  bool there = device == RG_CPU_DEVICE || rg_driver_of(device) != NULL ||
               (device == RG_PINNED && rg_driver_that_pins() != NULL);

  return there ? &memories[device] : NULL;
}

void rg_memory_reset_peak(int32_t device)
{
  rg_memory *m = rg_memory_of(device);

  if (m != NULL) {
    rg_spin_enter(&lock);
    m->peak_bytes = m->live_bytes;
    m->peak_reserved_bytes = m->reserved_bytes;
    rg_tag_reset_peaks(device);
    rg_site_reset_peaks(device);
    rg_spin_leave(&lock);
  }
}

rg_status rg_memory_set_limit(int32_t device, int64_t bytes)
{
  if (device != RG_PINNED) {
    RG_TRY(rg_device_open(device));
  }
  if (bytes < 0) {
    return rg_fail(RG_EARG, "memory: a limit of %lld bytes", (long long)bytes);
  }
  rg_spin_enter(&lock);
  memories[device].limit_bytes = bytes;
  rg_spin_leave(&lock);
  return RG_OK;
}

int64_t rg_memory_trim(int32_t device)
{
  int64_t given = 0;

  if (rg_memory_of(device) != NULL) {
    rg_spin_enter(&lock);
    given = trim(device);
    rg_spin_leave(&lock);
  }
  return given;
}
