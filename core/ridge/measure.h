/* SPDX-License-Identifier: MIT */
/*
** Measuring: timed windows of a plan, reference work that shows when the machine itself moves, what
** the host says about who else is running, and the machine's measured ceilings.
**
** The numbers leave here raw.  What they mean (medians, intervals, flags, grades) is decided in
** lua/ridge/measure.  A signal that the machine hides is NaN, -1 or an empty text: never a number
** that looks clean.
*/
#ifndef RIDGE_MEASURE_H
#define RIDGE_MEASURE_H

#include "ridge/graph.h"

/* -- Clock ----------------------------------------------------------------- */

/* What rg_clock_ns can resolve. */
typedef struct rg_clock_facts {
  char name[32];
  double overhead_ns;   /* one reading: median of the steps between 1000 readings in a row */
  double resolution_ns; /* smallest step seen that is not zero */
} rg_clock_facts;

/* out: filled; takes some tens of microseconds. */
RG_API rg_status rg_clock_facts_of(rg_clock_facts *out) RG_CHECK;

/* -- Window ---------------------------------------------------------------- */

/*
** One timed window: replays between two readings of the clock, and what happened meanwhile.
**
** A device does its work after the call that asks for it has returned.  So the host's clock is read
** at the end when the device has nothing left to do, and the device's own clock tells how long it
** worked (device_ns).  In a window of several calls other work and one more call stand untimed
** before the first: the device is then busy while the host asks for the timed ones; the host's
** clock waits for them too.
*/
typedef struct rg_window {
  int64_t begin_ns; /* rg_clock_ns */
  int64_t end_ns;
  int64_t calls;
  int64_t issued_ns; /* rg_clock_ns when the last call had returned; end_ns on the CPU */
  double device_ns;  /* from the first call's beginning to the last one's end by the device's clock,
                     ** which ticks about every 500 ns; NaN for a plan of the CPU or of several */
  double clock_mhz;  /* of the device, while it worked; NaN: not reported */
  int32_t held;      /* what held its clock back then: RG_HELD_...; -1: not reported */
  int32_t filled;    /* 1: all calls were asked for before the device came to the first, so that
                      ** device_ns holds no waiting for the host */
  int64_t own_cpu_ns;    /* processor time of the whole process, all its threads */
  int64_t n_voluntary;   /* context switches of the whole process */
  int64_t n_involuntary; /* somebody else wanted the processor */
  int64_t n_migrations;  /* 1 when the calling thread ended on another processor, -1 hidden */
} rg_window;

/*
** Memory that is overwritten to flush the caches, taken once.  It is neither
** in the device's statistics nor in its pool.
*/
typedef struct rg_flush rg_flush;

/*
** device   whose caches
** bytes    how much to write over; 0 means twice the last-level cache, at most 256 MiB
** out      new reference
** RG_ENOMEM, RG_EARG, RG_EDEVICE.
*/
RG_API rg_status rg_flush_new(int32_t device, int64_t bytes, rg_flush **out) RG_CHECK;
RG_API int64_t rg_flush_bytes(const rg_flush *flush);
RG_API void rg_flush_release(rg_flush *flush);

/*
** Time k replays of a plan as one window.
**
** plan     see rg_plan_replay
** k        1 or more
** out      filled
** RG_EINTR when a request came, RG_EARG, and whatever the plan answers.
*/
RG_API rg_status rg_measure_window(rg_plan *plan, int64_t k, rg_window *out) RG_CHECK;

/*
** Time n windows of k replays each, one after the other.
**
** plan     see rg_plan_replay
** k        replays in each window, 1 or more
** n        windows, 1 or more
** flush    NULL for warm caches; else each window begins after the caches were flushed,
**          outside the timed region, and k must be 1; of the plan's device
** out      n of them; filled on success only
** RG_EINTR, RG_EARG, RG_EDEVICE.
*/
RG_API rg_status rg_measure_windows(rg_plan *plan, int64_t k, int64_t n, rg_flush *flush,
                                    rg_window *out) RG_CHECK;

/* -- Sentinel -------------------------------------------------------------- */

/*
** Three pieces of work that never change, so that a change of their time is a change of the
** machine.  They run on the calling thread.
*/
typedef struct rg_sentinel rg_sentinel;

/* Times of one run. */
typedef struct rg_sentinel_times {
  double clock_ns;   /* a chain of 2^21 dependent additions: one a cycle, whoever shares the core */
  double compute_ns; /* S1: about 10 ms of multiply-adds over 16 KB in L1 */
  double memory_ns;  /* S2: a read of 64 MB from memory; fixed, since a guest's cache size lies */
  double clock_hz;   /* 2^21 additions over clock_ns */
} rg_sentinel_times;

/* out: new reference; takes 64 MB outside the tensor pool. */
RG_API rg_status rg_sentinel_new(rg_sentinel **out) RG_CHECK;

/* Run each piece once.  out: filled.  RG_EINTR. */
RG_API rg_status rg_sentinel_run(rg_sentinel *sentinel, rg_sentinel_times *out) RG_CHECK;

RG_API void rg_sentinel_release(rg_sentinel *sentinel);

/* -- Host ------------------------------------------------------------------ */

/*
** Counters of the host at one moment; the difference of two says what happened between them.  The
** processors are those this process may run on.  NaN: not reported.
*/
typedef struct rg_host_counters {
  double at_ns;
  double busy_ns;      /* all processors, everybody; steps of 10 ms on most kernels */
  double own_ns;       /* this process, all threads */
  double steal_ns;     /* wanted to run, the hypervisor ran others */
  double pressure_ns;  /* some task waited for a processor (PSI cpu some) */
  double throttled_ns; /* this process's group was held back by its quota */
  double n_throttled;  /* periods in which it was */
  double n_cpus;       /* processors counted in busy_ns and steal_ns */
} rg_host_counters;

/* out: filled; some tens of microseconds, so never inside a window. */
RG_API rg_status rg_host_counters_of(rg_host_counters *out) RG_CHECK;

/* Settings of the host that change what a number means.  -1, NaN, "": not reported. */
typedef struct rg_host_facts {
  char governor[32];  /* of the first processor this process may run on */
  char thp[16];       /* transparent huge pages: always, madvise, never */
  char cpuset[128];   /* processors this process may run on: "0-3,8" */
  int32_t turbo;      /* 1 on */
  int32_t smt;        /* 1 when hardware threads share cores */
  int32_t aslr;       /* kernel.randomize_va_space: 0, 1, 2; 0 when this process has none */
  int32_t debugger;   /* 1 when traced */
  int32_t on_battery; /* 1 when no power supply is online */
  int32_t n_cpus;     /* processors in cpuset */
  double quota_cpus;  /* processors' worth of time the group may use; infinite without a quota */
  double mhz;         /* mean clock the kernel reports; often a constant in guests */
} rg_host_facts;

/* out: filled. */
RG_API rg_status rg_host_facts_of(rg_host_facts *out) RG_CHECK;

/* -- Ceilings -------------------------------------------------------------- */

/*
** The measured roofs.  fma_*: multiply-adds in registers, counted as two operations, for each
** instruction set; bw: a read over a buffer; triad: a = b + s c, counted as three words an element
** (STREAM's counting, without the line that a write fetches).
*/
/* clang-format off */
#define RG_CEILING_LIST(X)                     \
  X(FMA_F32_BASE,   "fma.f32.base",   "flop/s") \
  X(FMA_F32_AVX2,   "fma.f32.avx2",   "flop/s") \
  X(FMA_F32_AVX512, "fma.f32.avx512", "flop/s") \
  X(FMA_F64_BASE,   "fma.f64.base",   "flop/s") \
  X(FMA_F64_AVX2,   "fma.f64.avx2",   "flop/s") \
  X(FMA_F64_AVX512, "fma.f64.avx512", "flop/s") \
  X(DOT_BF16,       "dot.bf16",       "flop/s") \
  X(AMX_BF16,       "amx.bf16",       "flop/s") \
  X(READ_L1,        "bw.l1",          "B/s")    \
  X(READ_L2,        "bw.l2",          "B/s")    \
  X(READ_LLC,       "bw.llc",         "B/s")    \
  X(READ_DRAM,      "bw.dram",        "B/s")    \
  X(TRIAD_L1,       "triad.l1",       "B/s")    \
  X(TRIAD_L2,       "triad.l2",       "B/s")    \
  X(TRIAD_LLC,      "triad.llc",      "B/s")    \
  X(TRIAD_DRAM,     "triad.dram",     "B/s")
/* clang-format on */

#define RG_CEILING_ENUM(name, text, unit) RG_CEILING_##name,
enum { RG_CEILING_LIST(RG_CEILING_ENUM) RG_CEILING_COUNT };

/* The name of a ceiling, "fma.f32.avx512".  kind: RG_CEILING_...; NULL for another number. */
RG_API const char *rg_ceiling_name(int32_t kind);

/* The unit of a ceiling, "flop/s" or "B/s".  kind: RG_CEILING_...; NULL for another number. */
RG_API const char *rg_ceiling_unit(int32_t kind);

/* A ceiling prepared to be measured: its memory is taken and touched. */
typedef struct rg_ceiling rg_ceiling;

/*
** kind      RG_CEILING_...
** threads   1 .. 1024
** out       new reference
** RG_ENOSUP when the machine lacks the instructions, the permission or the cache; RG_EARG,
** RG_ENOMEM.
*/
RG_API rg_status rg_ceiling_new(int32_t kind, int32_t threads, rg_ceiling **out) RG_CHECK;

/*
** Measure once.
**
** min_ns    how long to run at least, 1 .. 10^10
** rate      operations or bytes each second, all threads together
** RG_EINTR, RG_EARG.
*/
RG_API rg_status rg_ceiling_run(rg_ceiling *ceiling, int64_t min_ns, double *rate) RG_CHECK;

/* Bytes the measurement goes over on all threads; 0 when it stays in registers. */
RG_API int64_t rg_ceiling_bytes(const rg_ceiling *ceiling);

RG_API void rg_ceiling_release(rg_ceiling *ceiling);

/* -- Counters ---------------------------------------------------------------- */

/* What is counted: of the processor outside the kernel, and of the kernel. */
/* clang-format off */
#define RG_COUNTER_LIST(X)                                                                  \
  X(CYCLES,           "cycles",           HARDWARE, PERF_COUNT_HW_CPU_CYCLES)               \
  X(INSTRUCTIONS,     "instructions",     HARDWARE, PERF_COUNT_HW_INSTRUCTIONS)             \
  X(CACHE_MISSES,     "cache_misses",     HARDWARE, PERF_COUNT_HW_CACHE_MISSES)             \
  X(BRANCH_MISSES,    "branch_misses",    HARDWARE, PERF_COUNT_HW_BRANCH_MISSES)            \
  X(PAGE_FAULTS,      "page_faults",      SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS)              \
  X(CONTEXT_SWITCHES, "context_switches", SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES)         \
  X(MIGRATIONS,       "migrations",       SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS)
/* clang-format on */

#define RG_COUNTER_ENUM(name, text, type, config) RG_COUNTER_##name,
enum { RG_COUNTER_LIST(RG_COUNTER_ENUM) RG_COUNTER_COUNT };

/* The name of a counter, "branch_misses".  which: RG_COUNTER_...; NULL for another number. */
RG_API const char *rg_counter_name(int32_t which);

/* Counters of all threads of this process, up to 256, and of those that they start. */
typedef struct rg_counters rg_counters;

typedef struct rg_counter {
  double value;     /* NaN: it is not available */
  double share;     /* of the time, in which it counted; below 1 counters took turns, and the value
                    ** is what it would have been */
  char reason[112]; /* why it is not available; "" where it is */
} rg_counter;

/* out: new reference; they do not count yet.  What the machine or the system does not let be
** counted is no failure.  RG_EARG, RG_ENOMEM. */
RG_API rg_status rg_counters_new(rg_counters **out) RG_CHECK;

/* Count from now on (on: 1), or not. */
RG_API void rg_counters_count(rg_counters *counters, int32_t on);

/* What one has counted.  which: RG_COUNTER_...; out: filled.  RG_EARG. */
RG_API rg_status rg_counters_read(const rg_counters *counters, int32_t which,
                                  rg_counter *out) RG_CHECK;

/* Count for each operation too, of calls that this thread's ring hears: each of them then takes
** some microseconds more, in which all counters are read twice.  on: 1, or 0. */
RG_API void rg_counters_by_operation(rg_counters *counters, int32_t on);

/* What calls of one operation have counted. */
typedef struct rg_operation_counts {
  const char *name;                /* NULL: behind the last one */
  int64_t n_calls;                 /* from beginning to end, with no other call in between */
  double values[RG_COUNTER_COUNT]; /* NaN: not available */
} rg_operation_counts;

/* which: from 0, in the order in which they came; out: filled.  RG_EARG. */
RG_API rg_status rg_counters_operation(const rg_counters *counters, int32_t which,
                                       rg_operation_counts *out) RG_CHECK;

RG_API void rg_counters_release(rg_counters *counters);

#endif
