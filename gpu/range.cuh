/* SPDX-License-Identifier: MIT */
/*
** Names for what a device is asked for.
*/
#ifndef RIDGE_GPU_RANGE_CUH
#define RIDGE_GPU_RANGE_CUH

#include "gpu/device.cuh"

/* A range begins, or with NULL the innermost one ends (rg_device_named, ridge/device.h). */
void rg_gpu_named(const char *name);

#endif
