// SPDX-License-Identifier: MIT
//
// Shared memory of the simulator. Every array is an allocation of its own and of exact size, so the
// address sanitizer sees an access one past its end; all of it is 0xff, a NaN in every float type,
// when a block starts.
#include "sim.h"

#include <cstdlib>
#include <sys/mman.h>

namespace sim
{

enum { MAX_SLOTS = 4096, ALIGN = 128, STATIC_LIMIT = 48 << 10, TOTAL_LIMIT = 227 << 10 };

struct Slot {
  void *memory;
  size_t bytes;
  uint64_t block; // the last block that it was filled for
};

// Not a vector: it would grow while fibers run, and the thread sanitizer would see them do it.
static Slot slots[MAX_SLOTS];
static int slot_count;
static uint64_t blocks; // how many have started, ever
static size_t static_bytes, dynamic_bytes;

static void *allocate(size_t bytes)
{
  void *p = nullptr;
  if (tsan_present()) {
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) p = nullptr;
  } else if (posix_memalign(&p, ALIGN, bytes)) {
    p = nullptr;
  }
  if (!p) fail({ "shared memory", "", 0 }, "no memory");
  return p;
}

static void release(void *p, size_t bytes)
{
  if (tsan_present()) {
    munmap(p, bytes);
  } else {
    free(p);
  }
}

// The thread sanitizer would see the last block's accesses meet this block's; for it, mapping the
// memory anew makes it another memory.
static void fill(void *p, size_t bytes)
{
  if (tsan_present()) {
    mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  memset(p, 0xff, bytes);
}

void shared_begin_grid(size_t bytes)
{
  dynamic_bytes = bytes;
  rgsim_here.dynamic_shared = bytes ? allocate(bytes) : nullptr;
}

void shared_begin_block(void)
{
  blocks++;
  static_bytes = 0;
  if (dynamic_bytes) fill(rgsim_here.dynamic_shared, dynamic_bytes);
}

// A kernel may not keep a pointer into shared memory: freed, it is found.
void shared_end_grid(void)
{
  if (dynamic_bytes) release(rgsim_here.dynamic_shared, dynamic_bytes);
  rgsim_here.dynamic_shared = nullptr;
  dynamic_bytes = 0;
  for (int i = 0; i < slot_count; i++) {
    if (slots[i].memory) release(slots[i].memory, slots[i].bytes);
    slots[i].memory = nullptr;
    slots[i].block = 0;
  }
}

} // namespace sim

// The kernel keeps the number of its array in `slot`; 0 is none yet.
void *rgsim_shared(int *slot, size_t bytes, const char *file, int line)
{
  using namespace sim;
  const Place place = { "RG_SHARED", file, line };
  if (!*slot) {
    if (slot_count == MAX_SLOTS) fail(place, "too many shared arrays in one program");
    slots[slot_count].bytes = bytes;
    *slot = ++slot_count;
  }
  Slot &s = slots[*slot - 1];
  if (s.block != blocks) {
    if (!s.memory) s.memory = allocate(bytes);
    fill(s.memory, bytes);
    s.block = blocks;
    static_bytes += bytes;
    if (static_bytes > STATIC_LIMIT) fail(place, "more than 48 KiB of static shared memory");
    if (static_bytes + dynamic_bytes > TOTAL_LIMIT) {
      fail(place, "more than 227 KiB of static and dynamic shared memory together");
    }
    tsan_release(s.memory);
  }
  tsan_acquire(s.memory);
  return s.memory;
}
