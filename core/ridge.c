/* SPDX-License-Identifier: MIT */
/*
** Start-up and the facts of this build.
*/
#include "base/base.h"
#include "cpu/cpu.h"
#include "gpu/plugin.h"
#include "op/op.h"

#ifndef RG_FLAGS
#define RG_FLAGS ""
#endif
#ifndef RG_GIT /* build/git.h: the commit, as another field */
#define RG_GIT ""
#endif

int32_t rg_abi(void)
{
  return RG_ABI;
}

const char *rg_version(void)
{
  return "0.1.0";
}

const char *rg_build_facts(void)
{
  return "{\"compiler\":\"" __VERSION__ "\",\"flags\":\"" RG_FLAGS "\",\"debug\":"
#ifdef __OPTIMIZE__
         "false"
#else
         "true"
#endif
      RG_GIT "}";
}

/* Nothing is opened or initialised here: backends only say which kernels they have. */
__attribute__((constructor)) static void start(void)
{
  rg_backend_register(RG_CPU, rg_cpu_backend());
  rg_device_source_register(&rg_gpu_source);
}
