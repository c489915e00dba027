/* SPDX-License-Identifier: MIT */
/*
** What a driver does whose device is the host's own memory and which has done everything at once,
** for tests that look at something else of it.
*/
#ifndef RIDGE_TESTS_DRIVER_H
#define RIDGE_TESTS_DRIVER_H

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static inline rg_status host_take(int32_t device, int64_t bytes, void **out)
{
  (void)device;
  *out = aligned_alloc(256, (size_t)((bytes + 255) / 256 * 256));
  return *out != NULL ? RG_OK : rg_fail(RG_ENOMEM, "no memory");
}

static inline void host_give(int32_t device, void *data)
{
  (void)device;
  free(data);
}

static inline rg_status host_pin(int64_t bytes, void **out)
{
  return host_take(0, bytes, out);
}

/* What there is nothing to do for. */
static inline rg_status host_done(int32_t device)
{
  (void)device;
  return RG_OK;
}

static inline rg_status host_copy(int32_t to_device, void *to, int32_t from_device,
                                  const void *from, int64_t bytes, bool behind)
{
  (void)to_device;
  (void)from_device;
  (void)behind;
  memmove(to, from, (size_t)bytes);
  return RG_OK;
}

static inline void host_enter(int32_t device, int32_t stream)
{
  (void)device;
  (void)stream;
}

static inline rg_status host_join(int32_t device, int32_t to, uint32_t streams)
{
  (void)device;
  (void)to;
  (void)streams;
  return RG_OK;
}

static inline rg_status host_mark_new(int32_t device, void **mark)
{
  (void)device;
  *mark = calloc(1, 1);
  return RG_OK;
}

static inline void host_mark_free(int32_t device, void *mark)
{
  (void)device;
  free(mark);
}

static inline rg_status host_mark(int32_t device, void *mark)
{
  (void)device;
  (void)mark;
  return RG_OK;
}

static inline void host_graph_free(int32_t device, void *graph)
{
  (void)device;
  (void)graph;
}

#endif
