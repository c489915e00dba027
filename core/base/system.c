/* SPDX-License-Identifier: MIT */
/*
** Memory from the system: pages of the host, a device's memory by its driver.
**
** Where a block begins decides which cache sets it shares with others and which loads alias with
** which stores 4 KB away: two copies of one program differ by 2 to 8 % in time by that alone
** (Mytkowicz et al. 2009).  While blocks are shifted each begins a random number of cache lines and
** pages further on, so that a time measured again in new blocks is one of another layout.
*/
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"

enum {
  MAP_FROM = 1 << 20, /* blocks from here on are mapped, not malloc'd */
  HUGE_PAGE = 2 << 20,
  LINE = 64,
  PAGE_LINES = 64, /* lines of a page of 4 KB */
  SHIFT_PAGES = 16,
  ASK_SYSTEM_EACH = 64 << 20 /* so much of fresh memory at most is not held against what there is */
};

#define WEAK __attribute__((weak))
extern void __asan_poison_memory_region(void const volatile *at, size_t bytes) WEAK;
extern void __asan_unpoison_memory_region(void const volatile *at, size_t bytes) WEAK;

static _Atomic uint64_t shift_seed; /* 0: nothing is shifted */
static _Atomic uint64_t shift_draws;

static const char *system_root = "";
static _Atomic int64_t taken;       /* of the host's memory, by blocks that were not given back */
static _Atomic int64_t taken_since; /* the system was asked what is available */

/* The next random number of the seed (SplitMix64: Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t seed)
{
  uint64_t z = seed + 0x9e3779b97f4a7c15u * (atomic_fetch_add(&shift_draws, 1) + 1);

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Bytes by which a fresh block begins later: whole lines, and whole pages where it is mapped. */
static int64_t next_shift(bool mapped)
{
  uint64_t seed = atomic_load(&shift_seed);
  uint64_t random;

  if (seed == 0) {
    return 0;
  }
  random = draw(seed);
  return (int64_t)(random % PAGE_LINES + (mapped ? (random >> 32) % SHIFT_PAGES * PAGE_LINES : 0)) *
         LINE;
}

void rg_memory_shift(uint64_t seed)
{
  atomic_store(&shift_seed, seed);
  atomic_store(&shift_draws, 0);
}

/* Below MAP_FROM: a line in front of the block says where its memory begins. */
static void *small_take(int64_t bytes)
{
  int64_t before = LINE + next_shift(false);
  char *base = aligned_alloc(LINE, (size_t)(before + bytes));

  if (base == NULL) {
    return NULL;
  }
  ((void **)(base + before))[-1] = base;
  if (__asan_poison_memory_region != NULL) {
    __asan_poison_memory_region(base, (size_t)before); /* an index below zero is an error still */
  }
  return base + before;
}

static void small_give(char *data)
{
  if (__asan_unpoison_memory_region != NULL) {
    __asan_unpoison_memory_region(data - LINE, LINE);
  }
  free(((void **)data)[-1]);
}

static int64_t mapped_bytes(int64_t bytes)
{
  return (bytes + HUGE_PAGE - 1) & ~(int64_t)(HUGE_PAGE - 1);
}

void rg_system_root(const char *root)
{
  system_root = root;
}

int64_t rg_memory_left(void)
{
  return rg_memory_available(system_root);
}

/*
** The system hands out more than it has and kills who writes to it: fresh memory is refused where
** it does not fit into what is available.  That is asked each ASK_SYSTEM_EACH bytes.  What was
** taken and not touched yet is not missing from what the system says, and counts here.
*/
static bool fits(int64_t bytes)
{
  int64_t since = atomic_fetch_add(&taken_since, bytes) + bytes;
  int64_t resident;
  int64_t untouched = 0;

  if (since < ASK_SYSTEM_EACH) {
    return true;
  }
  resident = rg_memory_resident(system_root);
  if (resident >= 0) {
    untouched = rg_max_i64(0, atomic_load(&taken) - resident);
  }
  if (bytes + untouched > rg_memory_available(system_root) - ASK_SYSTEM_EACH) {
    atomic_fetch_sub(&taken_since, bytes);
    return false;
  }
  atomic_store(&taken_since, 0);
  return true;
}

/* Addresses that begin with a huge page, of which memory comes when it is touched; NULL: none. */
static char *map(int64_t size, int flags)
{
  int64_t skip;
  char *base = mmap(NULL, (size_t)(size + HUGE_PAGE), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

  if (base == MAP_FAILED) {
    return NULL;
  }
  /* keep the aligned part, so that the kernel can back all of it with huge pages */
  skip = (int64_t)(-(intptr_t)base & (HUGE_PAGE - 1));
  if (skip > 0) {
    munmap(base, (size_t)skip);
  }
  if (skip < HUGE_PAGE) {
    munmap(base + skip + size, (size_t)(HUGE_PAGE - skip));
  }
  return base + skip;
}

static void *host_take(int64_t bytes)
{
  char *base;
  int64_t shift;

  if (!fits(bytes)) {
    return NULL;
  }
  if (bytes < MAP_FROM) {
    return small_take(bytes);
  }
  shift = next_shift(true);
  base = map(mapped_bytes(bytes + shift), 0);
  if (base == NULL) {
    return NULL;
  }
  madvise(base, (size_t)mapped_bytes(bytes + shift), MADV_HUGEPAGE);
  return base + shift;
}

/* A mapped block's memory begins at the multiple of a huge page below it. */
static void mapped_give(char *data, int64_t bytes)
{
  int64_t shift = (int64_t)((intptr_t)data & (HUGE_PAGE - 1));

  munmap(data - shift, (size_t)mapped_bytes(bytes + shift));
}

/* Of blocks that grow only large ones have huge pages: small ones grow by little. */
void *rg_system_take_room(int64_t bytes, int64_t room)
{
  int64_t shift;
  char *base;

  if (!fits(bytes)) {
    return NULL;
  }
  shift = next_shift(true);
  base = map(mapped_bytes(room + shift), MAP_NORESERVE);
  if (base == NULL) {
    return NULL;
  }
  if (bytes >= HUGE_PAGE) {
    madvise(base, (size_t)mapped_bytes(room + shift), MADV_HUGEPAGE);
  }
  atomic_fetch_add(&taken, bytes);
  return base + shift;
}

bool rg_system_grow(int64_t more)
{
  if (!fits(more)) {
    return false;
  }
  atomic_fetch_add(&taken, more);
  return true;
}

void rg_system_give_room(void *data, int64_t bytes, int64_t room)
{
  atomic_fetch_sub(&taken, bytes);
  mapped_give(data, room);
}

void *rg_system_take(int32_t device, int64_t bytes)
{
  void *data = NULL;
  rg_status status;

  if (device == RG_CPU_DEVICE) {
    data = host_take(bytes);
    if (data != NULL) {
      atomic_fetch_add(&taken, bytes);
    }
    return data;
  }
  status = device == RG_PINNED ? rg_driver_that_pins()->pin(bytes, &data)
                               : rg_driver_of(device)->take(device, bytes, &data);
  return status == RG_OK ? data : NULL;
}

void rg_system_give(int32_t device, void *data, int64_t bytes)
{
  if (device == RG_PINNED) {
    rg_driver_that_pins()->unpin(data);
  } else if (device != RG_CPU_DEVICE) {
    rg_driver_of(device)->give(device, data);
  } else {
    atomic_fetch_sub(&taken, bytes);
    if (bytes < MAP_FROM) {
      small_give(data);
    } else {
      mapped_give(data, bytes);
    }
  }
}
