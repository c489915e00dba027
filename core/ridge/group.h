/* SPDX-License-Identifier: MIT */
/*
** Groups of processes: what the ranks of one job do together, over a library for messages that is
** opened at run time.
**
** One thread of each process owns that library and runs the calls in the order in which they were
** started, so the process computes meanwhile.  All ranks start the same calls in the same order:
** each tells the others what it is about to do, and what differs is refused on all of them.
*/
#ifndef RIDGE_GROUP_H
#define RIDGE_GROUP_H

#include "ridge/tensor.h"

typedef struct rg_group rg_group;

/* What a group does. */
enum {
  RG_GROUP_BARRIER = 0,
  RG_GROUP_BROADCAST = 1,      /* count elements of the root's `in` into everybody's `out` */
  RG_GROUP_ALL_GATHER = 2,     /* count elements of each, by rank: `out` has size times as many */
  RG_GROUP_REDUCE_SCATTER = 3, /* `out`: the part of the result that rg_group_part says */
  RG_GROUP_ALL_REDUCE = 4,
  RG_GROUP_KINDS = 5
};

/* What becomes of elements that meet. */
enum {
  RG_GROUP_SUM = 0,
  RG_GROUP_MEAN = 1,     /* of floats */
  RG_GROUP_MAX = 2,      /* nan where one is nan; 0 is larger than -0 */
  RG_GROUP_WEIGHTED = 3, /* sum of weight times element by the sum of weights: of floats; what has
                         ** weight 0 is not looked at, and is 0 where all have */
  RG_GROUP_MIN = 4,      /* nan where one is nan */
  RG_GROUP_PROD = 5,     /* the product; of whole numbers it wraps, as a sum does */
  RG_GROUP_OPS = 6
};

/* One call: the same on every rank but for in, out and weight. */
typedef struct rg_group_call {
  int32_t kind;  /* RG_GROUP_BARRIER ... */
  int32_t op;    /* RG_GROUP_SUM ..., of those that reduce */
  int32_t dtype; /* RG_F32 ... */
  int32_t root;  /* of a broadcast */
  int64_t count; /* elements that go in; 0 or more */
  int64_t unit;  /* reduce_scatter: elements that stay together, of which count is a multiple */
  double weight; /* RG_GROUP_WEIGHTED: 0 or more */
  const void *in;
  void *out; /* may be in, but of all_gather */
  /* NULL, or written to by the time the call has ended, in ns of rg_clock_ns: when the thread of
  ** the group began with it, when all ranks had told what they do, and when it ended.  What a call
  ** that failed did not reach stays as it was. */
  int64_t *times;
  int32_t blocks; /* 1: whoever starts it waits for it at once, and computes nothing meanwhile */
  int32_t device; /* of in and out: RG_CPU, or one that rg_group_reach has approved of */
} rg_group_call;

/* Which of a call's times is what. */
enum { RG_GROUP_BEGAN = 0, RG_GROUP_CAME = 1, RG_GROUP_ENDED = 2, RG_GROUP_TIMES = 3 };

/* Libraries for messages. */
enum {
  RG_GROUP_AUTO = 0, /* MPI where a launcher started this process, else it is alone */
  RG_GROUP_MPI = 1,
  RG_GROUP_ALONE = 2
};

/*
** The library for MPI that a launcher's processes open: what RIDGE_MPI says, or libridge_mpi.so
** beside this code.  Nothing is opened, and it may not be there.
**
** path, size   written to: a text that is cut where it is longer
*/
RG_API void rg_group_path(char *path, int64_t size);

/*
** The group of this process, opened once: later calls give the same one.  It is ended when the
** process exits with status 0; one that ends in another way lets the launcher end the others.
**
** library    RG_GROUP_AUTO ...
** patience   seconds that the other ranks may take to come; 0: as long as it takes
** out        borrowed
** RG_EARG; RG_ENET where a launcher started this process and the library cannot be opened, and
** where none did and MPI is asked for; RG_ELATE: they did not come, RG_EINTR: a stop was asked for.
** Behind these two the process opens no group any more: MPI is started once.
*/
RG_API rg_status rg_group_open(int32_t library, double patience, rg_group **out) RG_CHECK;

RG_API int32_t rg_group_rank(const rg_group *group);
RG_API int32_t rg_group_size(const rg_group *group);
/* Among the ranks of this machine. */
RG_API int32_t rg_group_local_rank(const rg_group *group);
RG_API int32_t rg_group_local_size(const rg_group *group);
/* "MPI", or "none" for a process that is alone. */
RG_API const char *rg_group_library(const rg_group *group);

/* How long a rank waits for others that do not come, in seconds; above 0. */
RG_API rg_status rg_group_set_timeout(rg_group *group, double seconds) RG_CHECK;

/* The step of training that this rank is in, from 1: what is said of ranks that do not come. */
RG_API void rg_group_set_step(rg_group *group, int64_t step);

/*
** Which of n things belong to a rank: first .. first + *part - 1, in ranges that differ by one.
**
** n, rank, size   how many there are, of which rank, of how many
** first, part     written to
*/
RG_API void rg_group_part(int64_t n, int32_t rank, int32_t size, int64_t *first, int64_t *part);

/*
** Can ranks exchange what is on a device of theirs?  A group of one rank can; others by NCCL, which
** is opened here, each with one device.
**
** device   opened
** RG_ENOSUP: there is no library; RG_EDEVICE: the group's calls are on another device already.
*/
RG_API rg_status rg_group_reach(rg_group *group, int32_t device) RG_CHECK;

/*
** Start a call.  On the CPU sums are added up in the order of the ranks, in f32 (f64 of f64, whole
** numbers of 64 bits), and rounded once, and so are products: all ranks have the same bits,
** however messages went.
**
** On a device sums and products are NCCL's: in its order, those of half types in these.  Such a
** call is ordered after what this thread's stream was asked for, and overlaps with what that is
** asked for from now on; for rg_group_ended and rg_group_wait it has ended when it is enqueued, and
** the stream of the thread that waits is ordered after it then.  What goes wrong with it later (a
** rank that is gone) is an error of the next wait for the device, or of the next call.
**
** call     its memory stays where it is until the call has ended
** ticket   written to: what it is waited for by
** RG_EARG, RG_EDTYPE, RG_ENOMEM, and what an earlier call failed with.
*/
RG_API rg_status rg_group_start(rg_group *group, const rg_group_call *call,
                                int64_t *ticket) RG_CHECK;

/* 1: the call of a ticket has ended, or failed. */
RG_API int32_t rg_group_ended(rg_group *group, int64_t ticket);

/*
** Wait until the call of a ticket, and so all before it, has ended.
**
** RG_ELATE: a rank did not come in time; RG_ENET: it came with another call; RG_EINTR: a stop was
** asked for.
** Behind any failure the group is of no use any more, and says so each time.
*/
RG_API rg_status rg_group_wait(rg_group *group, int64_t ticket) RG_CHECK;

/* A number of some bytes, the same on each machine (FNV-1a of 64 bits, by 8 bytes): two that
** differ are of bytes that do.  bytes, n: where, how many. */
RG_API int64_t rg_group_digest(const void *bytes, int64_t n);

#endif
