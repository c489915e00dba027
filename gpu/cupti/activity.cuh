/* SPDX-License-Identifier: MIT */
/*
** What CUPTI tells of devices, for the core's events (rg_tracer, base/base.h).
*/
#ifndef RIDGE_GPU_CUPTI_ACTIVITY_CUH
#define RIDGE_GPU_CUPTI_ACTIVITY_CUH

#include "gpu/device.cuh"

extern const rg_tracer rg_cupti_tracer;

/* Theoretical occupancy of a kernel's launch, as rg_activity has it: by registers, shared memory
** and threads of its block. */
double rg_cupti_occupancy(const rg_activity *kernel);

#endif
