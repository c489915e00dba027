/* SPDX-License-Identifier: MIT */
/*
** The machine's roofs, measured: how many operations and bytes a second it gives at best.  A share
** of peak is worth nothing when the peak is a product of catalogue numbers; the guest that runs
** this may never see them.
*/
#include <omp.h>
#include <string.h>

#include "measure/measure.h"

/* -- Names --------------------------------------------------------------------- */

#define NAME(name, text, unit) [RG_CEILING_##name] = text,
static const char *const names[RG_CEILING_COUNT] = { RG_CEILING_LIST(NAME) };
#undef NAME
#define UNIT(name, text, unit) [RG_CEILING_##name] = unit,
static const char *const units[RG_CEILING_COUNT] = { RG_CEILING_LIST(UNIT) };
#undef UNIT

const char *rg_ceiling_name(int32_t kind)
{
  return kind >= 0 && kind < RG_CEILING_COUNT ? names[kind] : NULL;
}

const char *rg_ceiling_unit(int32_t kind)
{
  return kind >= 0 && kind < RG_CEILING_COUNT ? units[kind] : NULL;
}

/* -- What each needs -------------------------------------------------------------- */

struct rg_ceiling {
  int32_t kind;
  int32_t threads;
  int32_t isa;
  int64_t share_bytes; /* of one thread; 0 for registers */
  int64_t repeats;     /* of the inner loop, found by the first run */
  unsigned char *data; /* threads shares */
  uint64_t sink;
};

enum {
  STEPS = 1 << 14, /* rounds of a register loop between two looks at the repeat count */
  SMALLEST = 4096, /* shares are whole multiples: three arrays of whole vectors */
  GRAIN = 3 * SMALLEST
};

static bool is_triad(int32_t kind)
{
  return kind >= RG_CEILING_TRIAD_L1 && kind <= RG_CEILING_TRIAD_DRAM;
}

static bool is_stream(int32_t kind)
{
  return kind >= RG_CEILING_READ_L1 && kind <= RG_CEILING_TRIAD_DRAM;
}

/*
** The bytes each thread goes over, 0 when the level is not there.  Half of a private cache, so that
** the stack and the page tables fit beside it; of the shared one eight times the second level; and
** for memory four times the last level, but not more than 768 MB or an eighth of what the machine
** has: guests are told of caches that they share with strangers (480 MB on the development guest,
** where 512 MB already run at the speed of memory).
*/
int64_t rg_ceiling_share(const rg_machine *machine, int32_t kind, int32_t threads)
{
  const int64_t l1 = machine->l1d_bytes;
  const int64_t l2 = machine->l2_bytes;
  const int64_t l3 = machine->l3_bytes;
  const int64_t mega = (int64_t)1 << 20;
  int64_t bytes = 0;

  switch (kind) {
  case RG_CEILING_READ_L1:
  case RG_CEILING_TRIAD_L1:
    bytes = l1 / 2;
    break;
  case RG_CEILING_READ_L2:
  case RG_CEILING_TRIAD_L2:
    bytes = l2 / 2;
    break;
  case RG_CEILING_READ_LLC:
  case RG_CEILING_TRIAD_LLC:
    bytes = l3 >= 4 * l2 * threads ? rg_min_i64(8 * l2, l3 / 2 / threads) : 0;
    break;
  default:
    bytes = rg_max_i64(4 * rg_max_i64(l3, l2 * threads), 256 * mega);
    bytes = rg_min_i64(bytes, 768 * mega);
    if (machine->ram_bytes > 0) {
      bytes = rg_min_i64(bytes, machine->ram_bytes / 8);
    }
    bytes /= threads;
  }
  return bytes / GRAIN * GRAIN;
}

static rg_status check_support(int32_t kind)
{
  const rg_machine *machine = rg_machine_facts();
  bool there = true;

  switch (kind) {
  case RG_CEILING_FMA_F32_AVX2:
  case RG_CEILING_FMA_F64_AVX2:
    there = machine->isa_level >= RG_ISA_AVX2;
    break;
  case RG_CEILING_FMA_F32_AVX512:
  case RG_CEILING_FMA_F64_AVX512:
    there = machine->isa_level >= RG_ISA_AVX512;
    break;
  case RG_CEILING_DOT_BF16:
    there = machine->isa_level >= RG_ISA_AVX512 && machine->has_avx512_bf16;
    break;
  case RG_CEILING_AMX_BF16:
    there = rg_loop_amx_permit();
    break;
  default:
    break;
  }
  if (!there) {
    return rg_fail(RG_ENOSUP, "ceiling %s: this machine does not have it", names[kind]);
  }
  return RG_OK;
}

static int32_t isa_of(int32_t kind)
{
  switch (kind) {
  case RG_CEILING_FMA_F32_BASE:
  case RG_CEILING_FMA_F64_BASE:
    return RG_ISA_BASE;
  case RG_CEILING_FMA_F32_AVX2:
  case RG_CEILING_FMA_F64_AVX2:
    return RG_ISA_AVX2;
  case RG_CEILING_FMA_F32_AVX512:
  case RG_CEILING_FMA_F64_AVX512:
    return RG_ISA_AVX512;
  default:
    return rg_machine_facts()->isa_level;
  }
}

/*
** Times that one call of the read goes over its share: as often as makes 256 KB, since entering and
** leaving the loop takes as long as reading a few KB from L1.
*/
static int64_t passes_of(int32_t kind, int64_t share_bytes)
{
  return is_triad(kind) ? 1 : 1 + 262144 / share_bytes;
}

/* -- One pass ----------------------------------------------------------------------- */

double rg_ceiling_work(int32_t kind, int32_t isa, int64_t share_bytes)
{
  const double bytes = rg_loop_vector_bytes(isa);

  if (is_stream(kind)) {
    return (double)(share_bytes * passes_of(kind, share_bytes));
  }
  switch (kind) {
  case RG_CEILING_AMX_BF16:
    return (double)STEPS * RG_AMX_FLOPS;
  case RG_CEILING_DOT_BF16:
    return (double)STEPS * RG_FMA_CHAINS * RG_DOT_FLOPS;
  case RG_CEILING_FMA_F64_BASE:
  case RG_CEILING_FMA_F64_AVX2:
  case RG_CEILING_FMA_F64_AVX512:
    return (double)STEPS * RG_FMA_CHAINS * 2.0 * bytes / 8;
  default:
    return (double)STEPS * RG_FMA_CHAINS * 2.0 * bytes / 4;
  }
}

static uint64_t one_repeat(const rg_ceiling *ceiling, unsigned char *share)
{
  const int64_t third = ceiling->share_bytes / 3;

  if (is_triad(ceiling->kind)) {
    rg_loop_triad(ceiling->isa, (void *)share, (void *)(share + third), (void *)(share + 2 * third),
                  0.5f, third / (int64_t)sizeof(float));
    return 0;
  }
  if (is_stream(ceiling->kind)) {
    return rg_loop_read(ceiling->isa, share, ceiling->share_bytes,
                        passes_of(ceiling->kind, ceiling->share_bytes));
  }
  switch (ceiling->kind) {
  case RG_CEILING_AMX_BF16:
    rg_loop_amx_bf16(STEPS);
    break;
  case RG_CEILING_DOT_BF16:
    rg_loop_dot_bf16(STEPS);
    break;
  case RG_CEILING_FMA_F64_BASE:
  case RG_CEILING_FMA_F64_AVX2:
  case RG_CEILING_FMA_F64_AVX512:
    rg_loop_fma_f64(ceiling->isa, STEPS);
    break;
  default:
    rg_loop_fma_f32(ceiling->isa, STEPS);
  }
  return 0;
}

/* All threads do repeats each, from a common start; the time until the last one is through. */
static int64_t one_pass(rg_ceiling *ceiling, int64_t repeats, int32_t *n_threads)
{
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t sink = 0;
  int32_t team = 1;

#pragma omp parallel num_threads(ceiling->threads) reduction(^ : sink)
  {
    unsigned char *share =
        ceiling->data ? ceiling->data + omp_get_thread_num() * ceiling->share_bytes : NULL;

#pragma omp single
    team = omp_get_num_threads();
#pragma omp barrier
#pragma omp master
    begin = rg_clock_ns();
    for (int64_t i = 0; i < repeats; i++) {
      sink ^= one_repeat(ceiling, share);
      /* the next round reads the same memory again, and has to */
      __asm__ volatile("" : : "r"(share) : "memory");
    }
#pragma omp barrier
#pragma omp master
    end = rg_clock_ns();
  }
  ceiling->sink ^= sink;
  *n_threads = team;
  return end - begin;
}

/* -- Interface ------------------------------------------------------------------------ */

rg_status rg_ceiling_new(int32_t kind, int32_t threads, rg_ceiling **out)
{
  rg_ceiling *ceiling;
  int64_t share = 0;

  if (kind < 0 || kind >= RG_CEILING_COUNT) {
    return rg_fail(RG_EARG, "ceiling: no kind %d", (int)kind);
  }
  if (threads < 1 || threads > 1024) {
    return rg_fail(RG_EARG, "ceiling %s: %d threads, want 1 to 1024", names[kind], (int)threads);
  }
  RG_TRY(check_support(kind));
  if (is_stream(kind)) {
    share = rg_ceiling_share(rg_machine_facts(), kind, threads);
    if (share <= 0) {
      return rg_fail(RG_ENOSUP, "ceiling %s: the machine reports no such cache", names[kind]);
    }
  }
  ceiling = rg_host_zeroed(sizeof(*ceiling));
  if (!ceiling) {
    return rg_fail(RG_ENOMEM, "ceiling %s: out of memory", names[kind]);
  }
  ceiling->kind = kind;
  ceiling->threads = threads;
  ceiling->isa = isa_of(kind);
  ceiling->share_bytes = share;
  if (share > 0) {
    ceiling->data = rg_measure_map(share * threads);
    if (!ceiling->data) {
      rg_host_free(ceiling);
      return rg_fail(RG_ENOMEM, "ceiling %s: the system has no %lld bytes", names[kind],
                     (long long)(share * threads));
    }
    /* touched by the thread that will use it: memory lies near who touches it first */
#pragma omp parallel num_threads(threads)
    memset(ceiling->data + omp_get_thread_num() * share, 0, (size_t)share);
  }
  *out = ceiling;
  return RG_OK;
}

rg_status rg_ceiling_run(rg_ceiling *ceiling, int64_t min_ns, double *rate)
{
  int64_t spent;
  int32_t team = 1;

  if (min_ns < 1 || min_ns > 10000000000) {
    return rg_fail(RG_EARG, "ceiling %s: %lld ns, want 1 to 10^10", names[ceiling->kind],
                   (long long)min_ns);
  }
  if (ceiling->repeats == 0) {
    ceiling->repeats = 1;
    (void)one_pass(ceiling, 1, &team); /* wakes the threads, fills the caches */
  }
  for (;;) {
    if (rg_interrupt_pending()) {
      return rg_fail(RG_EINTR, "ceiling %s: interrupted", names[ceiling->kind]);
    }
    spent = one_pass(ceiling, ceiling->repeats, &team);
    if (spent >= min_ns) {
      break;
    }
    /* towards 1.2 times what is asked for, at most eightfold: the first passes are unreliable */
    ceiling->repeats = 1 + rg_min_i64(8 * ceiling->repeats,
                                      (int64_t)((double)ceiling->repeats * 1.2 * (double)min_ns /
                                                (double)rg_max_i64(spent, 1)));
  }
  if (team != ceiling->threads) {
    return rg_fail(RG_ENOSUP, "ceiling %s: the system gave %d threads of %d", names[ceiling->kind],
                   (int)team, (int)ceiling->threads);
  }
  *rate = rg_ceiling_work(ceiling->kind, ceiling->isa, ceiling->share_bytes) *
          (double)ceiling->repeats * ceiling->threads * 1e9 / (double)spent;
  return RG_OK;
}

int64_t rg_ceiling_bytes(const rg_ceiling *ceiling)
{
  return ceiling->share_bytes * ceiling->threads;
}

void rg_ceiling_release(rg_ceiling *ceiling)
{
  if (ceiling) {
    rg_measure_unmap(ceiling->data, ceiling->share_bytes * ceiling->threads);
    rg_host_free(ceiling);
  }
}
