/* SPDX-License-Identifier: MIT */
/*
** Communicators: what devices of several processes do together (NCCL).  A driver brings it, and the
** thread of a group (dist/group.h) calls it.
*/
#ifndef RIDGE_BASE_COMMS_H
#define RIDGE_BASE_COMMS_H

#include "base/base.h"

/* What ranks do together over a communicator; the numbers are those of ridge/group.h. */
enum {
  RG_COMM_BROADCAST = 1,
  RG_COMM_ALL_GATHER = 2,
  RG_COMM_REDUCE_SCATTER = 3,
  RG_COMM_ALL_REDUCE = 4
};
enum { RG_COMM_SUM = 0, RG_COMM_MEAN = 1, RG_COMM_MAX = 2, RG_COMM_MIN = 4, RG_COMM_PROD = 5 };
enum { RG_COMM_ID = 128 }; /* bytes of a communicator's id */

/* One collective over memory of the communicator's device: the same on every rank but for share,
** in, out and the marks. */
typedef struct rg_comm_call {
  int32_t kind;  /* RG_COMM_BROADCAST ... */
  int32_t op;    /* RG_COMM_SUM ..., of those that reduce */
  int32_t dtype; /* RG_F32 ... */
  int32_t root;
  int64_t count; /* elements that go in, above 0 */
  int64_t unit;  /* of a reduce_scatter: elements that stay together */
  double share;  /* of a sum: what this rank's elements count by; those of 0 are not looked at */
  const void *in;
  void *out;
  void *behind; /* a mark that was set: what makes `in`, and what uses `out`, is in front of it */
  void *begun;  /* a mark that is set when `behind` has been passed */
} rg_comm_call;

/*
** Communicators between devices of several processes (NCCL).  Nothing waits but where it says so:
** what was asked for is settled when `settled` says so, and nothing else is asked for before.
** Apart from open, one thread calls all of it, that of a group (dist/group.h).
*/
typedef struct rg_comms {
  const char *name;
  /* The library, opened at the first call; RG_ENOSUP and why it cannot be used. */
  rg_status (*open)(void);
  /* A new id: one rank makes it, and all join with it. */
  rg_status (*make_id)(char *id);
  rg_status (*join)(int32_t device, const char *id, int32_t rank, int32_t size, void **comm);
  rg_status (*start)(void *comm, const rg_comm_call *call);
  /* Has the library taken what was asked for?  An error that came to light since the last call is
  ** one of this: RG_ENET. */
  rg_status (*settled)(void *comm, bool *done);
  /* Set a mark behind all that was started, and ask for one. */
  rg_status (*set)(void *comm, void *mark);
  rg_status (*passed)(void *comm, void *mark, bool *passed);
  /* Give up: what is under way on the device ends, with any numbers.  where those may be seen by
  ** somebody (why is not NULL), every later wait for the device says why. */
  void (*give_up)(void *comm, const char *why);
  /* All ranks leave; when that is settled the communicator is freed. */
  rg_status (*leave)(void *comm);
  void (*release)(void *comm);
} rg_comms;

#endif
