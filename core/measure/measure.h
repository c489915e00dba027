/* SPDX-License-Identifier: MIT */
/*
** What the files of measure share: memory of their own, the inner loops, the parsers of what the
** kernel says.
*/
#ifndef RIDGE_MEASURE_MEASURE_H
#define RIDGE_MEASURE_MEASURE_H

#include "base/base.h"
#include "ridge/measure.h"

/* -- Memory ---------------------------------------------------------------- */

/*
** Memory straight from the system, page-aligned, huge pages where the system gives them: it must
** neither appear in the pool's peak nor reuse the pool's warm blocks.  NULL on failure.
*/
void *rg_measure_map(int64_t bytes);

/* Takes NULL. */
void rg_measure_unmap(void *data, int64_t bytes);

/* -- Devices --------------------------------------------------------------- */

/*
** Keep a device busy for some time with work that nobody needs, on this thread's stream.
**
** ns          how long it shall be busy; at most some milliseconds are filled
** filled_ns   how long that takes it; 0 where there is no memory for it
*/
rg_status rg_fill(int32_t device, double ns, double *filled_ns) RG_CHECK;

/* -- Inner loops ----------------------------------------------------------- */

/*
** steps rounds of RG_FMA_CHAINS independent multiply-adds on vectors of one instruction set
** (RG_ISA_...), all in registers: x -> x / 2 + 1 / 2, from 0 in the first chain, 1 in the second
** and so on.
**
** Returns the sum of all chains behind the last.
*/
enum { RG_FMA_CHAINS = 12 };
double rg_loop_fma_f32(int32_t isa, int64_t steps);
double rg_loop_fma_f64(int32_t isa, int64_t steps);

/* Bytes of one vector of an instruction set. */
int32_t rg_loop_vector_bytes(int32_t isa);

/* The same with AVX-512's dot product of bf16 pairs, RG_DOT_FLOPS each: x -> x + 2^-19, from 1 in
** the first chain. */
enum { RG_DOT_FLOPS = 64 };
double rg_loop_dot_bf16(int64_t steps);

/* steps rounds of four AMX products of 16 x 32 by 32 x 16; the process must have the permission. */
enum { RG_AMX_FLOPS = 4 * 2 * 16 * 16 * 32 };
void rg_loop_amx_bf16(int64_t steps);

/* Ask the system for the AMX tiles: true when this process may use them. */
bool rg_loop_amx_permit(void);

/* Multiply-adds over n floats (a multiple of 128) in L1, passes times, in eight chains from 0:
** y -> y / 2 + x.  Returns the sum of the chains. */
double rg_loop_fma_l1(int32_t isa, const float *x, int64_t n, int64_t passes);

/*
** Read bytes (a multiple of 256) so many times; what comes back depends on every one of them, if
** the number of passes is odd.
*/
uint64_t rg_loop_read(int32_t isa, const void *data, int64_t bytes, int64_t passes);

/*
** Write bytes (a multiple of 64) past the caches, so that nothing of them is left there; elsewhere
** than on x86-64 through the caches.
*/
void rg_loop_write_past(void *data, int64_t bytes, unsigned char value);

/* a = b + scale c over n floats, n a multiple of 16. */
void rg_loop_triad(int32_t isa, float *a, const float *b, const float *c, float scale, int64_t n);

/* n additions, each waiting for the one before. */
uint64_t rg_loop_chain(int64_t n);

/* -- Clock ----------------------------------------------------------------- */

/* What n readings in a row, two or more, say of a clock.  at: written over; out: its numbers. */
void rg_clock_facts_from(int64_t *at, int32_t n, rg_clock_facts *out);

/* -- Ceilings -------------------------------------------------------------- */

/* The bytes that each thread goes over; 0 where the machine has no such level. */
int64_t rg_ceiling_share(const rg_machine *machine, int32_t kind, int32_t threads);

/* Operations or bytes of one repeat on one thread.  isa: RG_ISA_...; share_bytes: see above. */
double rg_ceiling_work(int32_t kind, int32_t isa, int64_t share_bytes);

/* -- What the kernel says -------------------------------------------------- */

/*
** Each parser takes the text of a file and answers true when the text holds the number; the output
** is untouched otherwise.
*/

/* /proc/pressure/cpu: the total of the line "some", in nanoseconds. */
bool rg_parse_pressure(const char *text, double *some_ns);

/*
** /proc/stat: busy and stolen time of some processors, in nanoseconds.
**
** text      whole lines of the file
** allowed   one byte a processor, not 0 for those to count
** n_allowed how many bytes
** hz        clock ticks in a second
*/
bool rg_parse_stat(const char *text, const unsigned char *allowed, int32_t n_allowed, double hz,
                   double *busy_ns, double *steal_ns, double *n_cpus);

/* A number behind a key at the start of a line ("nr_throttled 3", "TracerPid:\t0"). */
bool rg_parse_key(const char *text, const char *key, double *value);

/* cgroup version 2's cpu.max: "max 100000" or "150000 100000", in processors. */
bool rg_parse_cpu_max(const char *text, double *cpus);

/*
** /proc/self/cgroup: where this process's group keeps its processor limits.
**
** out       the folder below /sys/fs/cgroup, without a slash at the end
** version   1 or 2
*/
bool rg_parse_cgroup(const char *text, char *out, size_t out_bytes, int32_t *version);

/* The choice in brackets of "always [madvise] never". */
bool rg_parse_choice(const char *text, char *out, size_t out_bytes);

/* /proc/cpuinfo: the mean of the lines "cpu MHz". */
bool rg_parse_mhz(const char *text, double *mhz);

/* Write the processors of a set as "0-3,8"; ends in "..." when it does not fit. */
void rg_format_cpuset(const unsigned char *allowed, int32_t n_allowed, char *out, size_t out_bytes);

/* The public functions over another root folder than "", so that tests can bring their own. */
rg_status rg_host_counters_from(const char *root, rg_host_counters *out) RG_CHECK;
rg_status rg_host_facts_from(const char *root, rg_host_facts *out) RG_CHECK;

#endif
