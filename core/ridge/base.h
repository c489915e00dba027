/* SPDX-License-Identifier: MIT */
/*
** Status, memory, threads, clock, random numbers, machine facts: what everything stands on.
*/
#ifndef RIDGE_BASE_H
#define RIDGE_BASE_H

#ifndef RG_CDEF
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef RG_CDEF
#define RG_API
#define RG_CHECK
#define RG_PRINTF(a, b)
#else
#ifdef __cplusplus
#define RG_API extern "C" __attribute__((visibility("default")))
#else
#define RG_API __attribute__((visibility("default")))
#endif
#define RG_CHECK        __attribute__((warn_unused_result))
#define RG_PRINTF(a, b) __attribute__((format(printf, a, b)))
#endif

/* The version of this interface; the binding refuses another one. */
enum { RG_ABI = 1 };

/* -- Status ---------------------------------------------------------------- */

/* clang-format off */
#define RG_STATUS_LIST(X)                                                                        \
  X(RG_OK,         0,  "no error")                                                               \
  X(RG_ESHAPE,    -1,  "shapes do not agree")                                                    \
  X(RG_EDTYPE,    -2,  "element type not accepted")                                              \
  X(RG_EAXIS,     -3,  "no such axis or index")                                                  \
  X(RG_EARG,      -4,  "argument out of range")                                                  \
  X(RG_ENOMEM,    -5,  "out of memory")                                                          \
  X(RG_EDEVICE,   -6,  "device missing or lost")                                                 \
  X(RG_ENOSUP,    -7,  "not supported here")                                                     \
  X(RG_EIO,       -8,  "reading or writing failed")                                              \
  X(RG_EFORMAT,   -9,  "malformed data")                                                         \
  X(RG_ENET,      -10, "communication failed")                                                   \
  X(RG_ESYS,      -11, "the system refused")                                                     \
  X(RG_EBUG,      -12, "an error in ridge itself")                                               \
  X(RG_EINTR,     -13, "interrupted")                                                            \
  X(RG_ENEEDLUA,  -14, "a function written in Lua has to run")                                   \
  X(RG_ERELEASED, -15, "the tensor was released")                                                \
  X(RG_ECAPTURE,  -16, "not possible while capturing")                                            \
  X(RG_ENAN,      -17, "a number that is not finite")                                              \
  X(RG_ELATE,     -18, "another process did not come in time")
/* clang-format on */

#define RG_STATUS_ENUM(name, number, text) name = number,
enum { RG_STATUS_LIST(RG_STATUS_ENUM) RG_STATUS_COUNT = 19 };

typedef int32_t rg_status;

/* The code's name ("RG_ESHAPE"), or "RG_?" for a number that is no status. */
RG_API const char *rg_status_name(rg_status code);

/* The code's general sentence. */
RG_API const char *rg_status_text(rg_status code);

/* The sentence of the last failure on this thread; borrowed until the next one. */
RG_API const char *rg_error_message(void);

/*
** Record a failure on this thread and return code; called where the facts are.
**
** code     a negative status
** format   printf format of one sentence that names what was given
*/
RG_API rg_status rg_fail(rg_status code, const char *format, ...) RG_PRINTF(2, 3);

/* RG_ABI of the loaded library. */
RG_API int32_t rg_abi(void);

/* The version of ridge, "0.1.0". */
RG_API const char *rg_version(void);

/* The declarations of this interface as LuaJIT reads them. */
RG_API const char *rg_cdef(void);

/* Compiler, flags and libraries of this build, one JSON object. */
RG_API const char *rg_build_facts(void);

/* -- Interrupt ------------------------------------------------------------- */

/* Ask running work to stop: safe in a signal handler.  Calls then return RG_EINTR. */
RG_API void rg_interrupt_set(void);

/* Take the request back; done by whoever has handled it. */
RG_API void rg_interrupt_clear(void);

/* 1 while a request stands. */
RG_API int32_t rg_interrupt_pending(void);

/* How often it was made since it was taken back.  What has to come to its end all the same, as
** saving does, waits for others until it is made once more. */
RG_API int32_t rg_interrupt_count(void);

/*
** Let handlers of signals run on an alternate stack: the calling thread gets one where it has none,
** and every handler that is installed gets SA_ONSTACK.  For programs that install one of their own:
** oneDNN's product of f32 by AVX uses the stack pointer as one more register, and the frame of a
** handler that came upon it would go over the heap.
** RG_ENOMEM, RG_ESYS.
*/
RG_API rg_status rg_signal_stack(void) RG_CHECK;

/*
** Let SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT leave "signal 11\n" in a file before they end the
** process as they would have: whoever finds it dead then knows that it was its own doing.
**
** fd       an open file; below 0 ends it and puts the handlers back that were there
** at       byte offset of the text, 0 or more
** RG_EARG, RG_ESYS.
*/
RG_API rg_status rg_crash_note(int32_t fd, int64_t at) RG_CHECK;

/* -- Processes ------------------------------------------------------------- */

/* A child process; spawned, never forked: a fork loses the compute threads. */
typedef struct rg_process rg_process;

/* Descriptor of the channel in the child. */
enum { RG_PROCESS_CHANNEL = 3 };

typedef struct rg_process_options {
  int32_t out_fd;    /* becomes the child's standard output; below 0: nothing is kept */
  int32_t err_fd;    /* the same of its standard error */
  int32_t own_group; /* 1: a process group of its own, out of reach of the terminal's Ctrl-C */
} rg_process_options;

/* How a process ended. */
typedef struct rg_process_end {
  int32_t running; /* 1: it has not ended */
  int32_t code;    /* exit status; -1 when it runs or a signal ended it */
  int32_t signal;  /* the signal that ended it, or 0 */
} rg_process_end;

/*
** Start a program with a channel to it as its descriptor 3; its standard input is empty.
**
** argv     path of the program and its arguments, NULL at the end
** extra    "NAME=value" put into its copy of our environment, NULL at the end; NULL for none
** options  where its output goes, and its group
** out      new reference
** RG_EARG, RG_ENOMEM, RG_ESYS when it cannot be started.
*/
RG_API rg_status rg_process_new(const char *const *argv, const char *const *extra,
                                const rg_process_options *options, rg_process **out) RG_CHECK;
RG_API int32_t rg_process_channel(const rg_process *process);

/* Its number; 0 once it has been waited for. */
RG_API int64_t rg_process_id(const rg_process *process);

/* Wait at most longest_ns for its end.  out: filled.  RG_EINTR, RG_ESYS. */
RG_API rg_status rg_process_wait(rg_process *process, int64_t longest_ns,
                                 rg_process_end *out) RG_CHECK;

/* Send it a signal, SIGTERM or another number; nothing when it has ended.  RG_ESYS. */
RG_API rg_status rg_process_kill(rg_process *process, int32_t number) RG_CHECK;

/* Kill it if it runs still, wait for it, close the channel. */
RG_API void rg_process_release(rg_process *process);

/* Send all n bytes over a channel fd.  RG_EIO when the other end is gone; no signal comes. */
RG_API rg_status rg_channel_send(int32_t fd, const void *bytes, int64_t n) RG_CHECK;

/*
** Receive what has come, at most n bytes.
**
** fd           the channel
** longest_ns   how long to wait for the first byte
** got          bytes received; 0: the other end is closed; -1: nothing came in time
** RG_EINTR, RG_EIO.
*/
RG_API rg_status rg_channel_receive(int32_t fd, void *bytes, int64_t n, int64_t longest_ns,
                                    int64_t *got) RG_CHECK;

/* -- Files ----------------------------------------------------------------- */

/* A file that is being written. */
typedef struct rg_output rg_output;

/*
** Begin to write a file.  Symbolic links are followed; mode, owner and other names of a file
** that is there stay.  What is no regular file (a device, a FIFO, an open descriptor) is written
** straight, and a database is left alone.
**
** path     the file, made where there is none
** out      new reference
** RG_EARG, RG_ENOMEM, RG_EIO with the path and the system's reason, or that it is a database.
*/
RG_API rg_status rg_output_new(const char *path, rg_output **out) RG_CHECK;

/* Write n bytes behind those before.  RG_EIO, RG_EINTR. */
RG_API rg_status rg_output_write(rg_output *output, const void *bytes, int64_t n) RG_CHECK;

/*
** End it, and release it: a regular file has all that was written, on the disk, or what it held
** before.  RG_EIO.
*/
RG_API rg_status rg_output_finish(rg_output *output) RG_CHECK;

/* Drop it, and what was written into it.  NULL does nothing. */
RG_API void rg_output_release(rg_output *output);

/*
** SQLite's authorizer for questions: 0 for what only reads, 1 for all else.
**
** unused, action, first, second, database, inside   as sqlite3_set_authorizer has them
*/
RG_API int32_t rg_sql_authorize(void *unused, int32_t action, const char *first, const char *second,
                                const char *database, const char *inside);

/* SQLite's progress handler: not 0 while a request to stop stands.  unused: SQLite's. */
RG_API int32_t rg_sql_stop(void *unused);

/*
** SQLite's busy handler: wait for whoever holds the database locked, 30 s at most; a request to
** stop that comes meanwhile ends the wait, and for 5 s leaves 1 s to each that follows.
**
** unused   as sqlite3_busy_handler has it
** tries    how often it was called for this lock, from 0
** 0: give up.
*/
RG_API int32_t rg_sql_wait(void *unused, int32_t tries);

/* Functions of SQLite, which is not linked here: sqlite3_ and the name, `next_stmt` and `close_v2`
** for the last but one and the last. */
typedef struct rg_sqlite {
  int32_t (*step)(void *statement);
  int32_t (*column_count)(void *statement);
  void *(*column_value)(void *statement, int32_t column);
  void *(*value_dup)(const void *value);
  void (*value_free)(void *value);
  void (*progress)(void *db, int32_t every, int32_t (*handler)(void *), void *argument);
  int32_t (*finalize)(void *statement);
  void *(*next_statement)(void *db, void *statement);
  int32_t (*close)(void *db);
} rg_sqlite;

/* Rows of a question. */
typedef struct rg_sql_rows {
  void **value; /* sqlite3_value, `columns` for each row */
  int64_t count;
  int32_t columns;
  int32_t code; /* what the last step said: 100, there may be more; 101, these are all */
  void (*release)(void *value);
} rg_sql_rows;

/*
** Step through a question, on a thread that a request to stop leaves where it does not end within
** a tenth of a second.
**
** sqlite      its functions
** db          sqlite3
** statement   sqlite3_stmt, prepared in it
** most        rows
** out         new reference
** RG_ENOMEM, and RG_EINTR: then the connection and all its statements are closed, where a thread
** was left by that thread, when SQLite has come back.
*/
RG_API rg_status rg_sql_fetch(const rg_sqlite *sqlite, void *db, void *statement, int64_t most,
                              rg_sql_rows **out) RG_CHECK;

/* Drop them.  NULL does nothing. */
RG_API void rg_sql_rows_release(rg_sql_rows *rows);

/* -- Memory ---------------------------------------------------------------- */

/* Bytes of one device.  live: in tensors and scratch; reserved: taken from the system. */
typedef struct rg_memory {
  int64_t live_bytes;
  int64_t peak_bytes;     /* largest live_bytes since rg_memory_reset_peak */
  int64_t reserved_bytes; /* live and cached */
  int64_t peak_reserved_bytes;
  int64_t limit_bytes; /* 0: none */
  int64_t n_blocks;    /* live blocks */
  int64_t n_requests;  /* allocations asked for since start */
  int64_t debt_bytes;  /* the CPU's: allocated on any device since the collector last paid, less
                       ** what was freed without it; the binding resets it */
  int64_t is_watched;  /* the CPU's: frees leave debt_bytes, so that it passes any mark however much
                       ** is freed, and are counted in freed_bytes; the binding sets both */
  int64_t freed_bytes;
} rg_memory;

/*
** The counters of a device, visible and always current.
**
** device   0 is the CPU
** Returns NULL for a device that is not there.
*/
RG_API rg_memory *rg_memory_of(int32_t device);

/* Set peak_bytes to live_bytes.  device: 0 is the CPU; another that is not there is ignored. */
RG_API void rg_memory_reset_peak(int32_t device);

/*
** Refuse allocations that would bring live_bytes above a limit.
**
** device   0 is the CPU
** bytes    the limit; 0 takes it away
** RG_EDEVICE, RG_EARG for a negative limit.
*/
RG_API rg_status rg_memory_set_limit(int32_t device, int64_t bytes) RG_CHECK;

/* Give cached blocks of a device back to the system; returns the bytes given back. */
RG_API int64_t rg_memory_trim(int32_t device);

/* Bytes that the machine or this process's control group can still give; INT64_MAX: not known. */
RG_API int64_t rg_memory_left(void);

/*
** Let fresh blocks of the host begin a random number of cache lines and pages further on, so that
** what is measured again in other blocks is not measured in the same layout.  Alignment to 64 bytes
** stays.  Blocks that are cached stay where they are: rg_memory_trim gives them back first.
**
** seed   of the random numbers, which start again; 0 ends it
*/
RG_API void rg_memory_shift(uint64_t seed);

/* Longest name of a tag, its end included. */
enum { RG_TAG_NAME = 32 };

/* Bytes of one device that were taken under one tag. */
typedef struct rg_tag_memory {
  int64_t live_bytes;
  int64_t peak_bytes; /* since rg_memory_reset_peak */
  int64_t n_blocks;   /* live ones */
} rg_tag_memory;

/* The number of a tag, from 1; the same for the same name.  name: up to RG_TAG_NAME - 1 bytes; out:
** the number.  RG_EARG for another name, and when there are 63 already. */
RG_API rg_status rg_memory_tag(const char *name, int32_t *out) RG_CHECK;

/* Count what this thread takes from now on under a tag.  tag: 0 is none.  Returns the one before:
** to be entered again. */
RG_API int32_t rg_memory_tag_enter(int32_t tag);

/* A tag's name; NULL behind the last one. */
RG_API const char *rg_memory_tag_name(int32_t tag);

/* device: 0 is the CPU; tag: from 1; out: filled.  RG_EARG. */
RG_API rg_status rg_memory_tag_of(int32_t device, int32_t tag, rg_tag_memory *out) RG_CHECK;

/* Bytes of one device that one line of the caller's source took, in one module. */
typedef struct rg_site_memory {
  const char *line;   /* "user.lua:12", as rg_line_set was told; NULL: it was told none */
  const char *module; /* as rg_range_begin was; NULL: none */
  int64_t live_bytes;
  int64_t peak_bytes; /* since rg_memory_reset_peak */
  int64_t n_blocks;   /* live ones */
} rg_site_memory;

/* Count what every thread takes from now on by line and module (on: 1), or no more (0): what was
** counted goes on being so until it is freed.  Returns what held before. */
RG_API int32_t rg_memory_sites(int32_t on);

/* How many pairs of a line and a module there are so far; all beyond 4094 are counted as one, the
** first. */
RG_API int32_t rg_memory_site_count(void);

/* device: 0 is the CPU; site: from 1; out: filled, its texts stay.  RG_EARG. */
RG_API rg_status rg_memory_site_of(int32_t device, int32_t site, rg_site_memory *out) RG_CHECK;

/*
** Let the n-th allocation from now fail with RG_ENOMEM, for tests; host structures count too.
**
** n        1 is the next one; 0 turns it off.  The environment's RIDGE_ALLOC_FAIL sets it at start.
*/
RG_API void rg_alloc_fail_at(int64_t n);

/* -- Threads and clock ----------------------------------------------------- */

/* Compute threads in use now. */
RG_API int32_t rg_threads(void);

/*
** Set the number of compute threads.
**
** n        1 .. 1024; 0 means one for each processor this process may use
** RG_EARG.
*/
RG_API rg_status rg_set_threads(int32_t n) RG_CHECK;

/* Processors this process may run on. */
RG_API int32_t rg_processors(void);

/*
** Bind compute thread i to the i-th of n processors, in turn.
**
** cpus     processor numbers; n of them, 1 .. 1024; n = 0 unbinds
** n        how many
** RG_EARG, RG_ESYS with the processor the system refused.
*/
RG_API rg_status rg_set_affinity(const int32_t *cpus, int32_t n) RG_CHECK;

/* Priority of this process: -20 before all others .. 19 behind them. */
RG_API int32_t rg_priority(void);

/*
** Set the priority of all threads.
**
** nice     -20 .. 19; less than now needs a privilege
** RG_EARG, RG_ESYS.
*/
RG_API rg_status rg_set_priority(int32_t nice) RG_CHECK;

/* CLOCK_MONOTONIC_RAW in nanoseconds. */
RG_API int64_t rg_clock_ns(void);

/* Processor time of this thread, in nanoseconds: it stands still while the thread waits. */
RG_API int64_t rg_clock_thread_ns(void);

/* -- Machine --------------------------------------------------------------- */

/* Instruction sets ridge's own kernels are built for, each including the ones before it. */
enum {
  RG_ISA_BASE = 0,
  RG_ISA_AVX2 = 1,
  RG_ISA_AVX512 = 2,
  RG_ISA_AVX512_BF16 = 3,
  RG_ISA_AMX = 4,
  RG_ISA_COUNT = 5
};

/* What the machine is; unknown numbers are 0, unknown texts empty. */
typedef struct rg_machine {
  char cpu[128];
  char isa[256]; /* the flags that matter: "avx2 avx512f avx512_bf16 amx_bf16 ..." */
  int32_t n_sockets;
  int32_t n_cores;
  int32_t n_threads;
  int32_t isa_level;    /* the highest RG_ISA_... this machine runs */
  int32_t has_amx_bf16; /* 1 where the system also lets this process use it */
  int32_t has_avx512_bf16;
  int32_t l1d_ways; /* lines of one set of L1 */
  int64_t l1d_bytes;
  int64_t l2_bytes;
  int64_t l3_bytes;
  int64_t ram_bytes;
} rg_machine;

/* The machine's facts, read once. */
RG_API const rg_machine *rg_machine_facts(void);

/* The instruction set ridge's own kernels use now (RG_ISA_...). */
RG_API int32_t rg_isa(void);

/* "base", "avx2", "avx512", "avx512_bf16", "amx"; NULL for another level. */
RG_API const char *rg_isa_name(int32_t level);

/*
** Choose a lower instruction set for ridge's own kernels, to compare and to test.
**
** level    RG_ISA_BASE .. the machine's level; the environment's RIDGE_ISA (base, avx2, avx512,
**          avx512_bf16, amx) sets it at start
** RG_ENOSUP above what the machine has, RG_EARG.
*/
RG_API rg_status rg_set_isa(int32_t level) RG_CHECK;

/* -- Random numbers -------------------------------------------------------- */

/*
** A stream of Philox4x32-10 numbers (Salmon et al., SC11): number i is a function of (seed, i)
** alone, so any number of threads draws the same ones.
*/
typedef struct rg_generator rg_generator;

/* A stream that begins at number 0 of a seed.  out: new reference. */
RG_API rg_status rg_generator_new(uint64_t seed, rg_generator **out) RG_CHECK;
RG_API rg_generator *rg_generator_retain(rg_generator *generator);
RG_API void rg_generator_release(rg_generator *generator);

/* The stream that draws use when none is given; seeded by rg_seed, else from the system once. */
RG_API rg_generator *rg_generator_default(void);

/* The seed of a stream and the number of the next draw. */
RG_API uint64_t rg_generator_seed(const rg_generator *generator);
RG_API uint64_t rg_generator_offset(const rg_generator *generator);

/* Start a stream again from number offset of a seed. */
RG_API void rg_generator_set(rg_generator *generator, uint64_t seed, uint64_t offset);

/* Seed the default stream.  seed: any number; it is what gets recorded. */
RG_API void rg_seed(uint64_t seed);

#endif
