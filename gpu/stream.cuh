/* SPDX-License-Identifier: MIT */
/*
** Streams, marks in them and graphs, as rg_driver (base/base.h) wants them.
*/
#ifndef RIDGE_GPU_STREAM_CUH
#define RIDGE_GPU_STREAM_CUH

#include "gpu/device.cuh"

/* The number of this thread's stream of a device. */
int32_t rg_gpu_stream_now(int32_t device);

void rg_gpu_enter(int32_t device, int32_t stream);
rg_status rg_gpu_join(int32_t device, int32_t to, uint32_t streams);

rg_status rg_gpu_mark_new(int32_t device, void **mark);
void rg_gpu_mark_free(int32_t device, void *mark);
rg_status rg_gpu_mark_set(int32_t device, void *mark);
rg_status rg_gpu_mark_follow(int32_t device, void *mark);
rg_status rg_gpu_mark_wait(int32_t device, void *mark);
rg_status rg_gpu_mark_between(int32_t device, void *from, void *to, double *ns);

rg_status rg_gpu_graph_begin(int32_t device);
rg_status rg_gpu_graph_end(int32_t device, void **graph);
rg_status rg_gpu_graph_run(int32_t device, void *graph);
void rg_gpu_graph_free(int32_t device, void *graph);

#endif
