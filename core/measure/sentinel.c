/* SPDX-License-Identifier: MIT */
/*
** The sentinel: work that is always the same, run beside what is measured.  When its time moves, it
** was the machine that moved (another guest, a lower clock, a full memory bus), and the point says
** so instead of claiming a difference.
**
** Three pieces, because machines move in three ways: the clock (a chain of additions, deaf to
** neighbours on the same core), the arithmetic units (multiply-adds fed from L1), and the memory
** (64 MB read once; a size of its own, since the caches of shared hosts are announced at sizes that
** no guest ever gets).
*/
#include <string.h>

#include "measure/measure.h"

enum {
  CHAIN = 1 << 21,      /* additions: 0.6 ms at 3.5 GHz */
  L1_FLOATS = 4096,     /* 16 KB, half of the smallest L1 in use */
  L1_VECTORS = 1 << 25, /* two a cycle: 5 ms at 3.5 GHz, 10 ms where one a cycle is loaded */
  MEMORY_BYTES = 64 << 20
};

struct rg_sentinel {
  float *l1;
  unsigned char *memory;
  int32_t isa;
  unsigned char value; /* last written to the memory */
  uint64_t sink;       /* what was read ends here, so that it had to be read */
};

void rg_sentinel_release(rg_sentinel *sentinel)
{
  if (sentinel) {
    rg_measure_unmap(sentinel->l1, L1_FLOATS * (int64_t)sizeof(float));
    rg_measure_unmap(sentinel->memory, MEMORY_BYTES);
    rg_host_free(sentinel);
  }
}

rg_status rg_sentinel_new(rg_sentinel **out)
{
  rg_sentinel *sentinel = rg_host_zeroed(sizeof(*sentinel));

  if (!sentinel) {
    return rg_fail(RG_ENOMEM, "sentinel: out of memory");
  }
  sentinel->isa = rg_machine_facts()->isa_level;
  sentinel->l1 = rg_measure_map(L1_FLOATS * (int64_t)sizeof(float));
  sentinel->memory = sentinel->l1 ? rg_measure_map(MEMORY_BYTES) : NULL;
  if (!sentinel->memory) {
    rg_sentinel_release(sentinel);
    return rg_fail(RG_ENOMEM, "sentinel: the system has no %d bytes", MEMORY_BYTES);
  }
  for (int i = 0; i < L1_FLOATS; i++) {
    sentinel->l1[i] = 0.5f;
  }
  memset(sentinel->memory, 1, MEMORY_BYTES);
  *out = sentinel;
  return RG_OK;
}

rg_status rg_sentinel_run(rg_sentinel *sentinel, rg_sentinel_times *out)
{
  const int64_t lanes = rg_loop_vector_bytes(sentinel->isa) / (int64_t)sizeof(float);
  const int64_t passes = L1_VECTORS / (L1_FLOATS / lanes);
  int64_t at[5];

  if (rg_interrupt_pending()) {
    return rg_fail(RG_EINTR, "sentinel: interrupted");
  }
  at[0] = rg_clock_ns();
  sentinel->sink ^= rg_loop_chain(CHAIN);
  at[1] = rg_clock_ns();
  rg_loop_fma_l1(sentinel->isa, sentinel->l1, L1_FLOATS, passes);
  at[2] = rg_clock_ns();
  /* Where the last-level cache is large, a second read comes out of it in half the time: 2.3 ms
  ** instead of 4.1 on the development guest, depending on what ran in between.  Written past the
  ** caches first, it always comes from memory (4.1 to 4.2). */
  sentinel->value++;
  rg_loop_write_past(sentinel->memory, MEMORY_BYTES, sentinel->value);
  at[3] = rg_clock_ns();
  sentinel->sink ^= rg_loop_read(sentinel->isa, sentinel->memory, MEMORY_BYTES, 1);
  at[4] = rg_clock_ns();
  *out = (rg_sentinel_times){
    .clock_ns = (double)(at[1] - at[0]),
    .compute_ns = (double)(at[2] - at[1]),
    .memory_ns = (double)(at[4] - at[3]),
    .clock_hz = 1e9 * CHAIN / (double)(at[1] - at[0]),
  };
  return RG_OK;
}
