/* SPDX-License-Identifier: MIT */
/*
** Running cuDNN's graphs on a device: a job is looked for among those that were planned, planned
** where it is new, and then run.
*/
#ifndef RIDGE_GPU_DNN_RUN_H
#define RIDGE_GPU_DNN_RUN_H

#include <mutex>

#include "gpu/device.cuh"
#include "gpu/dnn/graph.h"

#if RG_HAS_DNN

/* A graph to be: who builds it, and of what.  Jobs with equal bytes in `what` are the same job. */
struct rg_dnn_job {
  void (*build)(rg_dnn_graph *g, const void *what);
  const void *what;
  int64_t size; /* of what, in bytes */
  rg_dnn_rules rules;
  int64_t room; /* bytes the caller wants for itself, beside cuDNN's workspace */
  int32_t most; /* candidates to be timed: some take a second to compile */
  bool stays;   /* it is a step of a plan, which will be replayed */
};

struct rg_dnn_entry;
struct rg_dnn_station;

/* The library where it is there and wanted, else NULL. */
inline const rg_dnn_library *rg_dnn_wanted(void)
{
  return rg_gpu->modes()->vendor != 0 ? rg_dnn_open() : NULL;
}

/* A job that is about to run.  It holds the lock of all cuDNN's work until it ends. */
struct rg_dnn_exec {
  std::unique_lock<std::mutex> held;
  rg_dnn_entry *entry;
  rg_dnn_station *station;
  char *room; /* what the job asked for, 256-byte aligned */
};

/* Plan and reserve; the library is wanted.  False: cuDNN does not do it, or not yet: to plan a job
** takes up to seconds, so one that nothing says will come again is left to ridge's own kernel the
** first time.  While the stream is captured only what is ready is taken: compiling and allocating
** do not belong into a graph. */
bool rg_dnn_ready(int32_t device, const rg_dnn_job &job, rg_dnn_exec *exec);

/* Put the work on the device's stream.  The first time, where rg_device_modes.autotune is 2 and
** outside of captures, all candidates are timed and the fastest stays: outputs must not be inputs.
** False: cuDNN refused; what the outputs hold then is undefined. */
bool rg_dnn_run(rg_dnn_exec *exec, const rg_dnn_bind *bind, int32_t n);

#endif
#endif
