/* SPDX-License-Identifier: MIT */
/*
** Between ridge and the library that holds the GPU's kernels: what each gives to the other.  The
** library has one exported function, rg_gpu_plugin; it links nothing of ridge.
*/
#ifndef RIDGE_GPU_PLUGIN_H
#define RIDGE_GPU_PLUGIN_H

#include "op/op.h"

enum { RG_GPU_ABI = 12 };

/* What the plugin may call. */
typedef struct rg_gpu_host {
  int32_t abi;      /* RG_GPU_ABI */
  int32_t core_abi; /* RG_ABI */
  int32_t n_ops;    /* RG_OP_COUNT: both were built from the same list */
  int32_t poison;   /* 1: fill workspaces with 0xff when they are handed out (rg_alloc_poisons) */
  rg_status (*fail)(rg_status code, const char *format, ...);
  const rg_device_modes *(*modes)(void); /* those that a call of this thread runs under */
  /* files, as rg_output_... writes them */
  rg_status (*output_new)(const char *path, rg_output **out);
  rg_status (*output_write)(rg_output *output, const void *bytes, int64_t n);
  rg_status (*output_finish)(rg_output *output);
  void (*output_release)(rg_output *output);
} rg_gpu_host;

/* What it brings: devices 1 .. count of ridge are its 0 .. count - 1. */
typedef struct rg_gpu_offer {
  int32_t count;
  int32_t _pad;
  const rg_driver *driver;
  const rg_backend *backend;
  const char *prefix; /* of its devices' names: "cuda", "sim" */
} rg_gpu_offer;

typedef rg_status rg_gpu_entry(const rg_gpu_host *host, rg_gpu_offer *out);

/* Where GPUs come from: the plugin beside this program where there is a driver of NVIDIA's, or the
** one that RIDGE_GPU names.  Driver and plugin are opened with the first device. */
extern const rg_device_source rg_gpu_source;

#endif
